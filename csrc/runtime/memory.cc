#include "runtime/memory.h"

#include "runtime/in_flight.h"
#include "runtime/session.h"
#include "runtime/trace.h"

namespace torch_tpu::runtime {
namespace {

void raise_to(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (value > seen && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void MemoryCounters::add(int64_t size) {
  raise_to(peak_bytes, bytes.fetch_add(size, std::memory_order_relaxed) + size);
  raise_to(peak_buffers, buffers.fetch_add(1, std::memory_order_relaxed) + 1);
  bytes_allocated_total.fetch_add(size, std::memory_order_relaxed);
  buffers_allocated_total.fetch_add(1, std::memory_order_relaxed);
}

void MemoryCounters::remove(int64_t size) {
  bytes.fetch_sub(size, std::memory_order_relaxed);
  buffers.fetch_sub(1, std::memory_order_relaxed);
  bytes_freed_total.fetch_add(size, std::memory_order_relaxed);
  buffers_freed_total.fetch_add(1, std::memory_order_relaxed);
}

void MemoryCounters::reset_peak() {
  peak_bytes = bytes.load();
  peak_buffers = buffers.load();
}

void MemoryCounters::reset_accumulated() {
  bytes_allocated_total = bytes_freed_total = buffers_allocated_total = buffers_freed_total = out_of_memory = 0;
}

MemoryCounters& memory_counters(int device) {
  static std::array<MemoryCounters, kMaxDevices> counters;
  return counters.at(static_cast<size_t>(device));
}

DeviceBuffer::DeviceBuffer(pjrt::Buffer buffer, int64_t bytes, int device)
    : device_(device), bytes_(bytes), buffer_(std::move(buffer)) {
  memory_counters(device_).add(bytes_);
}

DeviceBuffer::~DeviceBuffer() {
  // A lock that one of the parent's threads held at the fork is never released in the child.
  if (Session::in_bad_fork()) [[unlikely]] {
    buffer_.release();
    return;
  }
  if (state_.load(std::memory_order_acquire) == State::kPending) trace_queue(device_).forget(*this);
  if (state_.load(std::memory_order_acquire) == State::kMade) memory_counters(device_).remove(bytes_);
}

void DeviceBuffer::resolve() { trace_queue(device_).make(*this); }

void DeviceBuffer::await() {
  if (ready_.load(std::memory_order_acquire)) return;
  buffer();  // while it is pending nobody knows who makes it
  try {
    with_origin(origin_.get(), [&] { buffer_.ready_event().await(); });
  } catch (const pjrt::Error&) {
    // Made by one op of a trace that ran op by op: the run that failed names it, not those that it took along.
    if (!origin_) in_flight(device_).wait();
    throw;
  }
  ready_.store(true, std::memory_order_release);
}

bool DeviceBuffer::is_ready() {
  if (ready_.load(std::memory_order_acquire)) return true;
  return is_made() && buffer_.ready_event().is_ready();
}

}  // namespace torch_tpu::runtime
