#include "aten/device.h"

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>

#include "aten/bridge.h"
#include "runtime/bounds.h"
#include "runtime/in_flight.h"
#include "runtime/session.h"
#include "runtime/trace.h"

namespace torch_tpu::aten {
namespace {

thread_local int current = 0;
thread_local std::array<c10::StreamId, runtime::kMaxDevices> streams{};
std::atomic<c10::StreamId> next_stream{1};

}  // namespace

int device_count() noexcept { return runtime::Session::device_count(); }
int current_device() { return current; }

void set_device(int index) {
  if (index == current) return;
  const int count = device_count();
  TORCH_CHECK(index >= 0 && index < count, "invalid device index ", index, ": there are ", count,
              " tpu devices (tpu:0 to tpu:", count - 1, ")");
  current = index;
}

void synchronize(int device) {
  if (runtime::Session::started()) runtime::Session::get();  // raises in a forked child
  runtime::trace_queue(device).finish(runtime::FlushReason::kSynchronize);
  runtime::in_flight(device).wait();
  runtime::check_bounds();
}

int resolve_device(c10::Device device) {
  if (!device.has_index() || device.index() < 0) return current;
  if (device.index() == 0) return 0;
  const int count = device_count();
  TORCH_CHECK(device.index() < count, "invalid device ", device, ": there are ", count,
              " tpu devices (tpu:0 to tpu:", count - 1, ")");
  return device.index();
}

c10::Stream current_stream(int device) {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)),
                     streams.at(static_cast<size_t>(device)));
}

namespace {

// PJRT orders work by data, and a device runs what it is given in order, so all streams of a device are one queue:
// what CUDA-style code may assume of its streams holds, and more. Events mark points of that queue.
struct EventState {
  runtime::Marker marker{{}};
  // When the work before it was over; 0 until then. Shared with the callback that sets it.
  std::shared_ptr<std::atomic<int64_t>> completed_nanoseconds;
};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Whoever sees first that the work is over takes the time: the callback may come a little after those who waited.
void complete(std::atomic<int64_t>& time) {
  int64_t unset = 0;
  time.compare_exchange_strong(unset, now());
}

class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device old = getDevice();
    set_device(d.index());
    return old;
  }
  c10::Device getDevice() const override {
    return c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(current));
  }
  void setDevice(c10::Device d) const override { set_device(d.index()); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { current = d.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }

  c10::Stream getStream(c10::Device d) const override { return current_stream(index_of(d)); }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, with_index(d));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return getNewStream(d, 0); }
  c10::Stream getNewStream(c10::Device d, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, with_index(d), next_stream.fetch_add(1));
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const c10::Stream old = current_stream(s.device_index());
    streams.at(static_cast<size_t>(s.device_index())) = s.id();
    return old;
  }
  bool queryStream(const c10::Stream& s) const override {
    runtime::trace_queue(s.device_index()).flush(runtime::FlushReason::kSynchronize);
    return runtime::trace_queue(s.device_index()).is_idle() && runtime::in_flight(s.device_index()).is_idle();
  }
  void synchronizeStream(const c10::Stream& s) const override { synchronizeDevice(s.device_index()); }
  void synchronizeDevice(const c10::DeviceIndex d) const override {
    translate_errors([&] { synchronize(d < 0 ? current : d); });
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) *event = new EventState;
    auto* state = static_cast<EventState*>(*event);
    // What was recorded in traces so far is work before the event.
    translate_errors([&] { runtime::trace_queue(stream.device_index()).finish(runtime::FlushReason::kSynchronize); });
    state->marker = runtime::in_flight(stream.device_index()).mark();
    state->completed_nanoseconds = std::make_shared<std::atomic<int64_t>>(0);
    state->marker.on_complete([time = state->completed_nanoseconds] { complete(*time); });
  }
  void block(void*, const c10::Stream&) const override {}  // one queue: what was recorded comes first anyway
  bool queryEvent(void* event) const override {
    auto* state = static_cast<EventState*>(event);
    if (!state) return true;
    if (!state->marker.is_ready()) return false;
    complete(*state->completed_nanoseconds);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    auto* state = static_cast<EventState*>(event);
    if (!state) return;
    translate_errors([&] {
      state->marker.wait();
      complete(*state->completed_nanoseconds);
      runtime::check_bounds();
    });
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first && second, "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(queryEvent(first) && queryEvent(second),
                "Both events must be completed before calculating elapsed time.");
    return static_cast<double>(*static_cast<EventState*>(second)->completed_nanoseconds -
                               *static_cast<EventState*>(first)->completed_nanoseconds) *
           1e-6;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventState*>(event);
  }

 private:
  static int index_of(c10::Device d) { return d.has_index() && d.index() >= 0 ? d.index() : current; }
  static c10::Device with_index(c10::Device d) {
    return c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index_of(d)));
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard);

}  // namespace torch_tpu::aten
