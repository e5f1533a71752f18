// What a tensor's storage owns on the device: one dense array, or nothing yet.
#pragma once

#include <cstdint>
#include <vector>

#include "pjrt/element_type.h"
#include "runtime/memory.h"

namespace torch_tpu::runtime {

// The buffer covers the whole storage: numel(dims) * size(element) == nbytes, except for storages that no tensor has
// been made on (element kInvalid). Tensors are views of it by (sizes, strides, offset). A null buffer is memory that
// nothing has written: it reads as zeros.
struct Storage {
  BufferRef buffer;
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> dims;
  int64_t nbytes = 0;
  int device = 0;
  // What PyTorch shows as the data pointer: an address that no memory has (aten/allocator.h).
  void* address = nullptr;
};

}  // namespace torch_tpu::runtime
