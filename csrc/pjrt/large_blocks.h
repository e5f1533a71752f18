// Memory of XLA's CPU plugin for large arrays, kept for the next array when one is freed.
//
// A training step has one block of hundreds of megabytes for temporaries. The C library gives such a block back to the
// system when it is freed, so each step would have its pages made and cleared anew: a tenth of minGPT's step. Blocks of
// a few megabytes it takes from its heap, where they and the host's tensors leave each other gaps that fit neither: the
// process grew by a hundred megabytes while one layer was moved to the device and back. So the blocks are mapped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_tpu::pjrt {

// Bytes. Smaller blocks are the C library's.
constexpr size_t kSmallestLargeBlock = size_t{1} << 20;
constexpr size_t kLargeBlockAlignment = 4096;  // every system's page is a multiple

// As posix_memalign with kLargeBlockAlignment; `size` is at least kSmallestLargeBlock.
int allocate_large_block(void** out, size_t size);
// False for a block that is not of here.
bool keep_large_block(void* block);

// Gives the system back what is kept; returns its bytes.
int64_t release_large_blocks();

// Kept and in use are together never more than a quarter above the most that was once in use.
struct LargeBlockStats {
  int64_t in_use, kept, peak_in_use;  // bytes
};
LargeBlockStats large_block_stats();

}  // namespace torch_tpu::pjrt
