// Work that a device has been given: what synchronize() and events wait for.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "pjrt/event.h"

namespace torch_tpu::runtime {

// A point in a device's work. Waiting for it waits for everything issued before.
class Marker {
 public:
  explicit Marker(std::vector<std::shared_ptr<pjrt::Event>> events) : events_(std::move(events)) {}
  bool is_ready() const;
  void wait() const;
  // Calls `done` once when all of it is over (at once on this thread if it is already).
  void on_complete(std::function<void()> done) const;

 private:
  std::vector<std::shared_ptr<pjrt::Event>> events_;
};

class InFlight {
 public:
  // Takes an event of new work. Finished ones are dropped from time to time, so the list stays short.
  void add(pjrt::Event event);
  // Waits for all work so far; throws the first error of it.
  void wait();
  bool is_idle();
  Marker mark();

 private:
  void prune();
  std::mutex mutex_;
  std::deque<std::shared_ptr<pjrt::Event>> events_;
  size_t prune_at_ = 64;
};

InFlight& in_flight(int device);

}  // namespace torch_tpu::runtime
