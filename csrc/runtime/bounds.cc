#include "runtime/bounds.h"

#include <atomic>
#include <deque>
#include <mutex>

#include "runtime/session.h"

namespace torch_tpu::runtime {
namespace {

struct Flag {
  BufferRef buffer;
  std::string op;
};
std::mutex mutex;
std::deque<Flag>& pending() {
  static auto* const flags = new std::deque<Flag>;
  return *flags;
}
std::atomic<size_t> count{0};

bool is_set(DeviceBuffer& flag) {
  flag.await();
  if (Session::get().client().has_host_memory()) return *static_cast<const bool*>(flag.buffer().unsafe_host_pointer());
  bool value = false;
  flag.buffer().copy_to_host(&value, sizeof value).await();
  return value;
}

}  // namespace

void check_bounds_flag(DeviceBuffer& flag, const std::string& op, bool immediate) {
  if (!is_set(flag)) return;
  std::string text = "index out of range in " + op;
  if (!immediate)
    text +=
        " (found on the device and reported at this synchronization; torch.tpu.set_eager_mode(EagerMode.DEBUG) or "
        "TORCH_TPU_LAUNCH_BLOCKING=1 reports it at the call)";
  throw IndexError(text);
}

void add_bounds_flag(BufferRef flag, const std::string& op) {
  constexpr size_t kMany = 256;
  Flag oldest;
  {
    std::lock_guard lock(mutex);
    pending().push_back({std::move(flag), op});
    // A loop that never synchronizes must not collect flags without end: the oldest is long since computed.
    if (pending().size() > kMany) {
      oldest = std::move(pending().front());
      pending().pop_front();
    }
    count.store(pending().size(), std::memory_order_release);
  }
  if (oldest.buffer) check_bounds_flag(*oldest.buffer.get(), oldest.op, false);
}

void check_bounds() {
  if (count.load(std::memory_order_acquire) == 0) return;
  std::deque<Flag> flags;
  {
    std::lock_guard lock(mutex);
    flags.swap(pending());
    count.store(0, std::memory_order_release);
  }
  for (Flag& f : flags) check_bounds_flag(*f.buffer.get(), f.op, false);
}

}  // namespace torch_tpu::runtime
