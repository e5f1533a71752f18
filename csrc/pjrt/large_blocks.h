// Memory of XLA's CPU plugin for large arrays, kept for the next array when one is freed.
//
// A training step has one block of hundreds of megabytes for temporaries. The C library gives such a block back to the
// system when it is freed, so each step would have its pages made and cleared anew: a tenth of minGPT's step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_tpu::pjrt {

// Bytes. Smaller blocks the C library keeps itself.
constexpr size_t kSmallestLargeBlock = size_t{16} << 20;

// As posix_memalign; `size` is at least kSmallestLargeBlock.
int allocate_large_block(void** out, size_t alignment, size_t size);
// False for a block that is not of here.
bool keep_large_block(void* block);

// Gives the system back what is kept; returns its bytes.
int64_t release_large_blocks();

// Kept and in use are together never more than was once in use.
struct LargeBlockStats {
  int64_t in_use, kept, peak_in_use;  // bytes
};
LargeBlockStats large_block_stats();

}  // namespace torch_tpu::pjrt
