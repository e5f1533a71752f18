// Device buffers by reference, and what they add up to per device.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "pjrt/buffer.h"

namespace torch_tpu::runtime {

inline constexpr int kMaxDevices = 64;

// Live and peak totals of one device. Counts are of PJRT buffers, so an array that two storages share counts once.
struct MemoryCounters {
  std::atomic<int64_t> bytes{0}, peak_bytes{0}, buffers{0}, peak_buffers{0};
  std::atomic<int64_t> bytes_allocated_total{0}, bytes_freed_total{0}, buffers_allocated_total{0},
      buffers_freed_total{0};
  std::atomic<int64_t> out_of_memory{0};

  void add(int64_t size);
  void remove(int64_t size);
  void reset_peak();
  void reset_accumulated();
};
MemoryCounters& memory_counters(int device);

// One PJRT buffer with a reference count. Shared between storages after a clone that copied nothing; a program may take
// the memory over (donation) only while the count is one.
class DeviceBuffer {
 public:
  DeviceBuffer(pjrt::Buffer buffer, int64_t bytes, int device);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  PJRT_Buffer* get() const { return buffer_.get(); }
  pjrt::Buffer& buffer() { return buffer_; }
  int64_t bytes() const { return bytes_; }
  int device() const { return device_; }

  // Blocks until the contents are there; throws the error of the program that makes them. Cheap when known to be ready.
  void await();
  bool is_ready();

 private:
  friend class BufferRef;
  std::atomic<int32_t> references_{1};
  std::atomic<bool> ready_{false};
  int device_;
  int64_t bytes_;
  pjrt::Buffer buffer_;
};

class BufferRef {
 public:
  BufferRef() = default;
  // Takes over the reference that a new DeviceBuffer starts with.
  explicit BufferRef(DeviceBuffer* fresh) : p_(fresh) {}
  BufferRef(const BufferRef& other) : p_(other.p_) {
    if (p_) p_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(BufferRef&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~BufferRef() {
    if (p_ && p_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete p_;
  }
  DeviceBuffer* operator->() const { return p_; }
  DeviceBuffer* get() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool unique() const { return p_ && p_->references_.load(std::memory_order_acquire) == 1; }

 private:
  DeviceBuffer* p_ = nullptr;
};

}  // namespace torch_tpu::runtime
