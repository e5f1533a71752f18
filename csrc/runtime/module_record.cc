#include "runtime/module_record.h"

#include <atomic>
#include <mutex>

#include "runtime/program.h"
#include "runtime/storage.h"

namespace torch_tpu::runtime {
namespace {

std::atomic<bool> recording{false}, recording_tpu{false};
std::mutex mutex;
std::vector<std::pair<std::string, std::string>>& modules() {
  static auto* const list = new std::vector<std::pair<std::string, std::string>>;
  return *list;
}
std::vector<TpuProgram>& tpu_programs() {
  static auto* const list = new std::vector<TpuProgram>;
  return *list;
}

TpuProgram lower_for_tpu(const Call& call, const CallDescription& description) {
  TpuProgram p;
  p.op = description.op;
  p.lowering = description.lowering->name;
  for (const TensorRef& t : call.tensors) {
    p.types.push_back(t.type);
    if (t.storage) p.nbytes += t.storage->nbytes;
  }
  lowering::Target target;
  target.platform = lowering::Target::Platform::kTpu;
  Program scratch;
  try {
    p.text = lower(call, description, target, scratch);
  } catch (const std::exception& e) {  // what a user would see at the call
    p.error = e.what();
  }
  return p;
}

}  // namespace

void set_module_recording(bool on) { recording = on; }
void set_tpu_program_recording(bool on) { recording_tpu = on; }

void record_program(const Call& call, const CallDescription& description, const std::string& text) {
  if (recording.load(std::memory_order_relaxed)) {
    std::lock_guard lock(mutex);
    modules().emplace_back(description.op, text);
  }
  if (recording_tpu.load(std::memory_order_relaxed)) {
    TpuProgram program = lower_for_tpu(call, description);
    std::lock_guard lock(mutex);
    tpu_programs().push_back(std::move(program));
  }
}

std::vector<std::pair<std::string, std::string>> take_recorded_modules() {
  std::lock_guard lock(mutex);
  return std::exchange(modules(), {});
}

std::vector<TpuProgram> take_tpu_programs() {
  std::lock_guard lock(mutex);
  return std::exchange(tpu_programs(), {});
}

}  // namespace torch_tpu::runtime
