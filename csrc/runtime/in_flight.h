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
  // Of a run that is over.
  bool failed() const;
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
  // Drops finished runs, at once where they are the oldest: each would hold a small piece of the C library's heap
  // between the host's large blocks, which then cannot be joined again when they are freed.
  void add(Run run);
  // Waits for all work so far; throws the first error of it, also of a run that was over long ago.
  void wait();
  bool is_idle();
  Marker mark();

 private:
  // Of the failed runs the first stays for wait(): most others fail because of it.
  void prune();
  std::mutex mutex_;
  std::deque<std::shared_ptr<const Run>> runs_;
  size_t prune_at_ = 64;
};

InFlight& in_flight(int device);

}  // namespace torch_tpu::runtime
