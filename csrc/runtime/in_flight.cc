#include "runtime/in_flight.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>

#include "runtime/memory.h"
#include "runtime/trace_program.h"

namespace torch_tpu::runtime {

void Run::wait() const {
  with_origin(origin.get(), [&] { done.await(); });
}

bool Run::failed() const {
  try {
    done.check();
    return false;
  } catch (const pjrt::Error&) {
    return true;
  }
}

bool Marker::is_ready() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const auto& r) { return r->done.is_ready(); });
}

void Marker::wait() const {
  for (const auto& r : runs_) r->wait();
}

void Marker::on_complete(std::function<void()> done) const {
  // One count for this call itself, so that `done` cannot run before all callbacks are placed.
  auto left = std::make_shared<std::atomic<size_t>>(runs_.size() + 1);
  auto finish_one = [left, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) done();
  };
  for (const auto& r : runs_) r->done.on_ready([finish_one](const pjrt::Error*) { finish_one(); });
  finish_one();
}

void InFlight::prune() {
  bool has_failed = false;
  std::erase_if(runs_, [&](const auto& r) {
    if (!r->done.is_ready()) return false;
    if (has_failed || !r->failed()) return true;
    has_failed = true;
    return false;
  });
  prune_at_ = std::max<size_t>(64, 2 * runs_.size());
}

void InFlight::add(Run run) {
  // Most small programs are over when execute returns.
  if (run.done.is_ready()) {
    run.done.check();  // an error of the run is the caller's
    return;
  }
  std::lock_guard lock(mutex_);
  while (!runs_.empty() && runs_.front()->done.is_ready() && !runs_.front()->failed()) runs_.pop_front();
  runs_.push_back(std::make_shared<const Run>(std::move(run)));
  if (runs_.size() >= prune_at_) prune();
}

void InFlight::wait() {
  std::deque<std::shared_ptr<const Run>> runs;
  {
    std::lock_guard lock(mutex_);
    runs.swap(runs_);
  }
  std::exception_ptr first;
  for (const auto& r : runs) {
    try {
      r->wait();
    } catch (const pjrt::Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

bool InFlight::is_idle() {
  std::lock_guard lock(mutex_);
  prune();
  return std::all_of(runs_.begin(), runs_.end(), [](const auto& r) { return r->done.is_ready(); });
}

Marker InFlight::mark() {
  std::lock_guard lock(mutex_);
  prune();
  return Marker({runs_.begin(), runs_.end()});
}

InFlight& in_flight(int device) {
  static auto* const lists = new std::array<InFlight, kMaxDevices>;
  return lists->at(static_cast<size_t>(device));
}

}  // namespace torch_tpu::runtime
