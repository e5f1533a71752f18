#include "runtime/module_record.h"

#include <atomic>
#include <mutex>

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

TpuProgram lower_for_tpu(const Recipe& recipe) {
  const CallDescription& description = recipe.description();
  TpuProgram p;
  p.op = description.op;
  p.lowering = description.lowering->name;
  for (const TensorRef& t : recipe.call().tensors) {
    p.types.push_back(t.type);
    if (t.storage) p.nbytes += t.storage->nbytes;
  }
  lowering::Target target;
  target.platform = lowering::Target::Platform::kTpu;
  Program scratch;
  try {
    p.text = lower(recipe, target, scratch);
  } catch (const std::exception& e) {  // what a user would see at the call
    p.error = e.what();
  }
  return p;
}

}  // namespace

void set_module_recording(bool on) { recording = on; }
void set_tpu_program_recording(bool on) { recording_tpu = on; }

void record_module(const std::string& op, const std::string& text) {
  if (!recording.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex);
  modules().emplace_back(op, text);
}

void record_program(const Recipe& recipe, const std::string& text) {
  record_module(recipe.description().op, text);
  if (recording_tpu.load(std::memory_order_relaxed)) {
    TpuProgram program = lower_for_tpu(recipe);
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
