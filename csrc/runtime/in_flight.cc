#include "runtime/in_flight.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "runtime/memory.h"

namespace torch_tpu::runtime {

bool Marker::is_ready() const {
  return std::all_of(events_.begin(), events_.end(), [](const auto& e) { return e->is_ready(); });
}

void Marker::wait() const {
  for (const auto& e : events_) e->await();
}

void Marker::on_complete(std::function<void()> done) const {
  // One count for this call itself, so that `done` cannot run before all callbacks are placed.
  auto left = std::make_shared<std::atomic<size_t>>(events_.size() + 1);
  auto finish_one = [left, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) done();
  };
  for (const auto& e : events_) e->on_ready([finish_one](const pjrt::Error*) { finish_one(); });
  finish_one();
}

void InFlight::prune() {
  std::erase_if(events_, [](const auto& e) { return e->is_ready(); });
  prune_at_ = std::max<size_t>(64, 2 * events_.size());
}

void InFlight::add(pjrt::Event event) {
  // Most small programs are over when execute returns.
  if (event.is_ready()) {
    event.await();  // an error of the run is the caller's
    return;
  }
  std::lock_guard lock(mutex_);
  events_.push_back(std::make_shared<pjrt::Event>(std::move(event)));
  if (events_.size() >= prune_at_) prune();
}

void InFlight::wait() {
  std::deque<std::shared_ptr<pjrt::Event>> events;
  {
    std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  for (const auto& e : events) e->await();
}

bool InFlight::is_idle() {
  std::lock_guard lock(mutex_);
  prune();
  return events_.empty();
}

Marker InFlight::mark() {
  std::lock_guard lock(mutex_);
  prune();
  return Marker({events_.begin(), events_.end()});
}

InFlight& in_flight(int device) {
  static auto* const lists = new std::array<InFlight, kMaxDevices>;
  return lists->at(static_cast<size_t>(device));
}

}  // namespace torch_tpu::runtime
