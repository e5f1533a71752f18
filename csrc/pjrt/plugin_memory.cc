#include "pjrt/plugin_memory.h"

#include <cstdlib>
#include <new>

#include "pjrt/imports.h"
#include "pjrt/large_blocks.h"
#include "pjrt/small_blocks.h"

namespace torch_tpu::pjrt {
namespace {

// Arrays and temporaries.
int allocate_array(void** out, size_t alignment, size_t size) {
  if (size >= kSmallestLargeBlock && alignment <= kLargeBlockAlignment) return allocate_large_block(out, size);
  void* block = allocate_small_block(size, alignment);
  if (block == nullptr) return ::posix_memalign(out, alignment, size);
  *out = block;
  return 0;
}

void free_array(void* block) {
  if (block != nullptr && !free_small_block(block) && !keep_large_block(block)) std::free(block);
}

// Objects of the plugin's runtime.
void* allocate_object(size_t size, std::align_val_t alignment) {
  void* block = allocate_small_block(size, static_cast<size_t>(alignment));
  return block != nullptr ? block : ::operator new(size, alignment);
}

void free_object(void* block, std::align_val_t alignment) {
  if (block != nullptr && !free_small_block(block)) ::operator delete(block, alignment);
}

}  // namespace

bool keep_blocks(const Plugin& plugin) {
  const Import arrays[] = {{"posix_memalign", reinterpret_cast<void*>(&allocate_array)},
                           {"free", reinterpret_cast<void*>(&free_array)}};
  // operator new(size_t, align_val_t) and operator delete(void*, align_val_t), as the C++ ABI names them.
  const Import objects[] = {{"_ZnwmSt11align_val_t", reinterpret_cast<void*>(&allocate_object)},
                            {"_ZdlPvSt11align_val_t", reinterpret_cast<void*>(&free_object)}};
  const bool has_arrays = replace_imports(plugin.path(), arrays);
  return replace_imports(plugin.path(), objects) && has_arrays;
}

}  // namespace torch_tpu::pjrt
