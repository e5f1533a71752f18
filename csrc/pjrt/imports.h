// Functions that a loaded library takes from others, replaced in its table of imports (ELF, glibc).
#pragma once

#include <span>
#include <string>

namespace torch_tpu::pjrt {

struct Import {
  const char* name;
  void* replacement;
};

// Makes the library at `path`, which is loaded, call the replacements. All or none: false, with nothing changed, when
// it does not import one of the names, or where the system's libraries are of another kind.
bool replace_imports(const std::string& path, std::span<const Import> imports);

}  // namespace torch_tpu::pjrt
