#include "pjrt/imports.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__linux__) && defined(__GLIBC__)
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace torch_tpu::pjrt {

#if defined(__linux__) && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

namespace {

#ifdef __x86_64__
constexpr uint32_t kSlotTypes[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#else
constexpr uint32_t kSlotTypes[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#endif

// What the dynamic section says; glibc has made its pointers absolute.
struct Tables {
  const char* strings = nullptr;
  const Elf64_Sym* symbols = nullptr;
  std::span<const Elf64_Rela> relocations[2];  // of the procedure linkage table, and the others

  explicit Tables(const link_map& library) {
    const Elf64_Rela* start[2] = {};
    size_t bytes[2] = {};
    for (const Elf64_Dyn* d = library.l_ld; d->d_tag != DT_NULL; ++d) {
      switch (d->d_tag) {
        case DT_STRTAB:
          strings = reinterpret_cast<const char*>(d->d_un.d_ptr);
          break;
        case DT_SYMTAB:
          symbols = reinterpret_cast<const Elf64_Sym*>(d->d_un.d_ptr);
          break;
        case DT_JMPREL:
          start[0] = reinterpret_cast<const Elf64_Rela*>(d->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          bytes[0] = d->d_un.d_val;
          break;
        case DT_RELA:
          start[1] = reinterpret_cast<const Elf64_Rela*>(d->d_un.d_ptr);
          break;
        case DT_RELASZ:
          bytes[1] = d->d_un.d_val;
          break;
        default:
          break;
      }
    }
    for (int i = 0; i < 2; ++i)
      if (start[i] != nullptr) relocations[i] = {start[i], bytes[i] / sizeof(Elf64_Rela)};
  }
};

bool is_slot(const Elf64_Rela& r) {
  const uint32_t type = ELF64_R_TYPE(r.r_info);
  return type == kSlotTypes[0] || type == kSlotTypes[1];
}

struct Slot {
  void** address;
  void* value;
};

// The page may have been made read-only when the library was loaded; it is writable from here on.
bool write(const Slot& slot) {
  const auto page_size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot.address) & ~(page_size - 1));
  if (::mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) return false;
  *slot.address = slot.value;
  return true;
}

}  // namespace

bool replace_imports(const std::string& path, std::span<const Import> imports) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  link_map* library = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &library) == 0;
  ::dlclose(handle);  // the library has other owners
  if (!known) return false;
  const Tables tables(*library);
  if (tables.strings == nullptr || tables.symbols == nullptr) return false;
  std::vector<Slot> slots, before;
  for (const Import& import : imports) {
    const size_t found = slots.size();
    for (const auto& relocations : tables.relocations)
      for (const Elf64_Rela& r : relocations)
        if (is_slot(r) && std::strcmp(tables.strings + tables.symbols[ELF64_R_SYM(r.r_info)].st_name, import.name) == 0)
          slots.push_back({reinterpret_cast<void**>(library->l_addr + r.r_offset), import.replacement});
    if (slots.size() == found) return false;
  }
  for (const Slot& slot : slots) {
    before.push_back({slot.address, *slot.address});
    if (write(slot)) continue;
    before.pop_back();
    for (const Slot& old : before) write(old);
    return false;
  }
  return true;
}

#else

bool replace_imports(const std::string&, std::span<const Import>) { return false; }

#endif

}  // namespace torch_tpu::pjrt
