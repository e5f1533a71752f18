// Work that a device has been given: what synchronize() and events wait for.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "pjrt/event.h"

namespace torch_tpu::runtime {

struct TraceSummary;

// One program that was issued.
struct Run {
  pjrt::Event done;
  std::shared_ptr<const TraceSummary> origin;  // null: one op of strict mode
  // Throws the run's error; in fused mode it names the ops.
  void wait() const;
};

// A point in a device's work. Waiting for it waits for everything issued before.
class Marker {
 public:
  explicit Marker(std::vector<std::shared_ptr<const Run>> runs) : runs_(std::move(runs)) {}
  bool is_ready() const;
  void wait() const;
  // Calls `done` once when all of it is over (at once on this thread if it is already).
  void on_complete(std::function<void()> done) const;

 private:
  std::vector<std::shared_ptr<const Run>> runs_;
};

class InFlight {
 public:
  // Finished runs are dropped from time to time, so the list stays short.
  void add(Run run);
  // Waits for all work so far; throws the first error of it.
  void wait();
  bool is_idle();
  Marker mark();

 private:
  void prune();
  std::mutex mutex_;
  std::deque<std::shared_ptr<const Run>> runs_;
  size_t prune_at_ = 64;
};

InFlight& in_flight(int device);

}  // namespace torch_tpu::runtime
