// Memory of XLA's CPU plugin for large arrays, kept for the next array when one is freed.
//
// A training step has one block of hundreds of megabytes for temporaries. The C library gives such a block back to the
// system when it is freed, so each step would have its pages made and cleared anew: a tenth of minGPT's step.
#pragma once

#include <cstdint>

#include "pjrt/plugin.h"

namespace torch_tpu::pjrt {

// Smaller blocks the C library keeps itself.
constexpr int64_t kSmallestLargeBlock = int64_t{16} << 20;

// False where the plugin has memory of its own, or the system is not one of glibc; nothing is changed then.
bool keep_large_blocks(const Plugin& plugin);

// Gives the system back what is kept; returns its bytes.
int64_t release_large_blocks();

// Kept and in use are together never more than was once in use.
struct LargeBlockStats {
  int64_t in_use, kept, peak_in_use;  // bytes
};
LargeBlockStats large_block_stats();

}  // namespace torch_tpu::pjrt
