// Completion of asynchronous work.
#pragma once

#include <functional>
#include <utility>

#include "pjrt/error.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Owns a PJRT_Event. Movable; an empty Event counts as ready.
class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() { reset(); }

  explicit operator bool() const { return event_ != nullptr; }
  PJRT_Event* get() const { return event_; }

  // True once the work is over, whether it succeeded or failed.
  bool is_ready() const;
  // Blocks until the work is over; throws Error if it failed.
  void await() const;
  // The same without polling, for work that is over.
  void check() const;
  // Calls `callback` with null or the error once the work is over: at once on this thread when it already is, else on a
  // thread of the plugin. The callback must not throw. The Event itself may be destroyed before that.
  void on_ready(std::function<void(const Error*)> callback) const;
  // Frees the event without waiting.
  void reset();

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace torch_tpu::pjrt
