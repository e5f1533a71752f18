// Memory for what XLA's CPU plugin aligns to a cache line: small arrays, and four objects of each run.
//
// The C library serves an alignment by cutting a larger block and freeing the rest, past its caches, which is a good
// part of what a small eager call costs. Here a block is of a size class, and the freed ones of a class are a list.
#pragma once

#include <cstddef>

namespace torch_tpu::pjrt {

constexpr size_t kLargestSmallBlock = 4096;  // bytes
constexpr size_t kSmallBlockAlignment = 64;

// Null for what is no small block, and where the room for them is used up.
void* allocate_small_block(size_t size, size_t alignment);
// False for a block that is not of here.
bool free_small_block(void* block);

}  // namespace torch_tpu::pjrt
