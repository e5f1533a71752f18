// Copies between host memory and device arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/storage.h"

namespace torch_tpu::runtime {

// A device array from dense row-major host memory, which may go when the call returns.
BufferRef upload(const void* data, ElementType type, std::span<const int64_t> dims, int device);
BufferRef zeros(ElementType type, std::span<const int64_t> dims, int device);
// The storage's bytes as host memory: a pointer into the device's memory where it is host memory, else a copy that
// `owner` holds. Waits for the contents, raises what went wrong before, and checks index bounds.
const void* host_bytes(Storage& storage, std::shared_ptr<void>* owner);
// The array on another device.
BufferRef copy_to_device(DeviceBuffer& buffer, int device);

}  // namespace torch_tpu::runtime
