#include "pjrt/event.h"

#include <chrono>
#include <memory>

#include "pjrt/args.h"

namespace torch_tpu::pjrt {
namespace {

// A thread that sleeps takes the system some 50 us to wake, and small work is over sooner than that.
constexpr std::chrono::microseconds kPolled{50};

struct Registration {
  const PJRT_Api* api;
  std::function<void(const Error*)> callback;
};

void run_callback(PJRT_Error* raw, void* user_arg) {
  std::unique_ptr<Registration> registration(static_cast<Registration*>(user_arg));
  if (raw == nullptr) {
    registration->callback(nullptr);
  } else {
    const Error error = take_error(registration->api, raw, "asynchronous work");
    registration->callback(&error);
  }
}

}  // namespace

bool Event::is_ready() const {
  if (event_ == nullptr) return true;
  TORCH_TPU_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event_;
  pjrt::check(api_, api_->PJRT_Event_IsReady(&args), "asking an event");
  return args.is_ready;
}

void Event::await() const {
  if (event_ == nullptr) return;
  if (!is_ready()) {
    const auto end = std::chrono::steady_clock::now() + kPolled;
    while (!is_ready() && std::chrono::steady_clock::now() < end) {
    }
  }
  check();
}

void Event::check() const {
  if (event_ == nullptr) return;
  TORCH_TPU_PJRT_ARGS(PJRT_Event_Await_Args, args);
  args.event = event_;
  pjrt::check(api_, api_->PJRT_Event_Await(&args), "asynchronous work");
}

void Event::on_ready(std::function<void(const Error*)> callback) const {
  if (event_ == nullptr) return callback(nullptr);
  auto registration = std::make_unique<Registration>(Registration{api_, std::move(callback)});
  TORCH_TPU_PJRT_ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event_;
  args.callback = run_callback;
  args.user_arg = registration.get();
  pjrt::check(api_, api_->PJRT_Event_OnReady(&args), "waiting for an event");
  registration.release();  // run_callback owns it now, and may have freed it already
}

void Event::reset() {
  if (event_ == nullptr) return;
  TORCH_TPU_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
  args.event = std::exchange(event_, nullptr);
  api_->PJRT_Event_Destroy(&args);
}

}  // namespace torch_tpu::pjrt
