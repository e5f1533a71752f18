// What XLA's CPU plugin asks the C and C++ libraries for memory: small_blocks.h and large_blocks.h stand in between.
#pragma once

#include "pjrt/plugin.h"

namespace torch_tpu::pjrt {

// Replaces the plugin's own imports of aligned allocation and of what frees it. False where it has memory of its own
// for arrays or for objects, which stays as it is, or the system is not one of glibc.
bool keep_blocks(const Plugin& plugin);

}  // namespace torch_tpu::pjrt
