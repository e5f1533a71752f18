// An array in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "pjrt/event.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// kInvalid for types that ElementType does not have (4-bit integers, tokens).
ElementType from_pjrt(PJRT_Buffer_Type type);

// Owns a PJRT_Buffer. Movable, two pointers wide. It holds no reference to its Client, to keep the execute path free of
// shared counts: the Client must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  Buffer(Buffer&& other) noexcept : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~Buffer() { reset(); }

  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }
  // Gives up ownership.
  PJRT_Buffer* release() { return std::exchange(buffer_, nullptr); }
  // Frees the buffer. Work that reads it may still be under way: the memory goes when that is done.
  void reset();

  // Lives as long as the buffer.
  std::span<const int64_t> dims() const;
  ElementType element_type() const;
  size_t on_device_size() const;
  PJRT_Device* device() const;
  bool is_on_cpu() const;

  // Ready when the contents are; carries the error of the program that made them.
  Event ready_event() const;
  // Starts a copy into `dst` in dense row-major order, whatever the device's layout is. `dst` must stay until the event
  // is ready.
  Event copy_to_host(void* dst, size_t size) const;
  // The host address of the contents, for clients with has_host_memory(). Does not wait: see ready_event(). The address
  // is good until the buffer is freed, deleted or donated.
  void* unsafe_host_pointer() const;
  // Starts a copy to another device of the same client.
  Buffer copy_to_device(const Device& device) const;
  // Frees the memory but not the handle.
  void delete_memory();
  // After delete_memory, or after a program took the buffer as a donation.
  bool is_deleted() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace torch_tpu::pjrt
