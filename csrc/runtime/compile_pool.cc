#include "runtime/compile_pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace torch_tpu::runtime {
namespace {

class Pool {
 public:
  void submit(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++unfinished_;
    // Threads start as they are needed, and stay.
    if (idle_ < queue_.size() && threads_ < std::max(2u, std::thread::hardware_concurrency())) {
      ++threads_;
      std::thread([this] { work_forever(); }).detach();
    }
    changed_.notify_one();
  }

  void drain() {
    std::unique_lock lock(mutex_);
    drained_.wait(lock, [&] { return unfinished_ == 0; });
  }

 private:
  void work_forever() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [&] { return !queue_.empty(); });
      --idle_;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      if (--unfinished_ == 0) drained_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, drained_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0, unfinished_ = 0;
  unsigned threads_ = 0;
};

Pool& pool() {
  static Pool* const instance = new Pool;  // its threads outlive static destruction
  return *instance;
}

}  // namespace

void submit_compilation(std::function<void()> work) { pool().submit(std::move(work)); }
void drain_compilations() { pool().drain(); }

}  // namespace torch_tpu::runtime
