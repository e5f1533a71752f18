#include "runtime/bounds.h"

#include <atomic>
#include <deque>
#include <mutex>

#include "lowering/op.h"
#include "runtime/session.h"

namespace torch_tpu::runtime {
namespace {

struct Flag {
  BufferRef buffer;
  std::string op;
  SourceLine line;
};
std::mutex mutex;
std::deque<Flag>& pending() {
  static auto* const flags = new std::deque<Flag>;
  return *flags;
}
std::atomic<size_t> count{0};

using lowering::Fault;

uint8_t read(DeviceBuffer& flag) {
  flag.await();
  if (Session::get().client().has_host_memory())
    return *static_cast<const uint8_t*>(flag.buffer().unsafe_host_pointer());
  uint8_t value = 0;
  flag.buffer().copy_to_host(&value, sizeof value).await();
  return value;
}

// "aten::_linalg_svd.U" -> "linalg.svd", as users know it.
std::string public_name(std::string op) {
  if (const size_t colon = op.rfind(':'); colon != std::string::npos) op.erase(0, colon + 1);
  if (const size_t dot = op.find('.'); dot != std::string::npos) op.erase(dot);
  op.erase(0, op.find_first_not_of('_'));
  if (op == "linalg_eigvals") op = "linalg_eig";
  return op.starts_with("linalg_") ? "linalg." + op.substr(7) : op;
}

[[noreturn]] void raise(Fault fault, const std::string& op, const std::string& where) {
  const std::string name = public_name(op);
  switch (fault) {
    case Fault::kIndexOutOfRange:
      throw IndexError("index out of range in " + op + where);
    case Fault::kDivisionByZero:
      throw std::runtime_error("ZeroDivisionError: integer division by zero in " + op + where);
    case Fault::kNotFinite:
      throw std::runtime_error("torch." + name + ": input tensor should not contain infs or NaNs." + where);
    case Fault::kNoConvergence:
      throw LinAlgError(
          name + ": The algorithm failed to converge because the input matrix contained non-finite values." + where);
    case Fault::kSingular:
      throw LinAlgError(name + ": A diagonal element is zero, the inversion could not be completed because the input " +
                        "matrix is singular." + where);
    case Fault::kBadLengths:
      throw std::runtime_error(name + "(): lengths are negative or do not sum to the size of the data" + where);
  }
  throw std::runtime_error("unknown fault in " + op + where);
}

}  // namespace

void check_bounds_flag(DeviceBuffer& flag, const std::string& op, SourceLine line, bool immediate) {
  const uint8_t fault = read(flag);
  if (fault == 0) return;
  raise(static_cast<Fault>(fault), op,
        immediate
            ? ""
            : describe(line) +
                  " (found on the device and reported at this synchronization; "
                  "torch.tpu.set_eager_mode(EagerMode.DEBUG) or TORCH_TPU_LAUNCH_BLOCKING=1 reports it at the call)");
}

void add_bounds_flag(BufferRef flag, const std::string& op, SourceLine line) {
  constexpr size_t kMany = 256;
  Flag oldest;
  {
    std::lock_guard lock(mutex);
    pending().push_back({std::move(flag), op, line});
    // A loop that never synchronizes must not collect flags without end: the oldest is long since computed.
    if (pending().size() > kMany) {
      oldest = std::move(pending().front());
      pending().pop_front();
    }
    count.store(pending().size(), std::memory_order_release);
  }
  if (oldest.buffer) check_bounds_flag(*oldest.buffer.get(), oldest.op, oldest.line, false);
}

void check_bounds() {
  if (count.load(std::memory_order_acquire) == 0) return;
  std::deque<Flag> flags;
  {
    std::lock_guard lock(mutex);
    flags.swap(pending());
    count.store(0, std::memory_order_release);
  }
  for (Flag& f : flags) check_bounds_flag(*f.buffer.get(), f.op, f.line, false);
}

}  // namespace torch_tpu::runtime
