// Device buffers by reference, and what they add up to per device.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
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

class Trace;
struct TraceSummary;

// One array on a device, with a reference count. Shared between storages after a clone that copied nothing; a program
// may take the memory over (donation) only while the count is one.
// In fused mode an array begins as a value of a trace (trace.h) and gets its PJRT buffer when the trace has run:
// whoever asks for the buffer before has the trace run. A trace that failed raises its error to all who ask for its
// arrays.
class DeviceBuffer {
 public:
  DeviceBuffer(pjrt::Buffer buffer, int64_t bytes, int device);
  // Value `value` of `trace`, which forgets it when the last reference goes.
  DeviceBuffer(Trace* trace, int value, int64_t bytes, int device)
      : state_(State::kPending), device_(device), bytes_(bytes), trace_(trace), value_(value) {}
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  PJRT_Buffer* get() { return buffer().get(); }
  pjrt::Buffer& buffer() {
    if (state_.load(std::memory_order_acquire) != State::kMade) [[unlikely]]
      resolve();
    return buffer_;
  }
  int64_t bytes() const { return bytes_; }
  int device() const { return device_; }
  // False for a value of a trace that has not run (or has failed).
  bool is_made() const { return state_.load(std::memory_order_acquire) == State::kMade; }

  // Blocks until the contents are there; throws the error of the program that makes them, which it names in fused mode.
  // Cheap when known to be ready.
  void await();
  bool is_ready();

 private:
  friend class BufferRef;
  friend class TraceQueue;
  enum class State : uint8_t { kMade, kPending, kFailed };
  void resolve();

  std::atomic<int32_t> references_{1};
  std::atomic<bool> ready_{false};
  std::atomic<State> state_{State::kMade};
  int device_;
  int64_t bytes_;
  pjrt::Buffer buffer_;
  // Of the device's TraceQueue, under its lock. While kPending: the trace that makes the array, and its number there.
  Trace* trace_ = nullptr;
  int value_ = -1;
  // The trace that last recorded the array as an input, by serial number (it may be gone), and its number there.
  int input_value_ = -1;
  uint64_t input_of_ = 0;
  int traces_ = 0;                              // that have it as an input and have not run
  std::exception_ptr failure_;                  // kFailed
  std::shared_ptr<const TraceSummary> origin_;  // kMade: the trace that made it; null in other modes
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
  bool unique() const { return count() == 1; }
  int count() const { return p_ ? p_->references_.load(std::memory_order_acquire) : 0; }

 private:
  DeviceBuffer* p_ = nullptr;
};

}  // namespace torch_tpu::runtime
