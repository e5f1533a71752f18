#include "runtime/module_record.h"

#include <atomic>
#include <mutex>

namespace torch_tpu::runtime {
namespace {

std::atomic<bool> recording{false};
std::mutex mutex;
std::vector<std::pair<std::string, std::string>>& modules() {
  static auto* const list = new std::vector<std::pair<std::string, std::string>>;
  return *list;
}

}  // namespace

void set_module_recording(bool on) { recording = on; }

void record_module(const std::string& op, const std::string& text) {
  if (!recording.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex);
  modules().emplace_back(op, text);
}

std::vector<std::pair<std::string, std::string>> take_recorded_modules() {
  std::lock_guard lock(mutex);
  return std::exchange(modules(), {});
}

}  // namespace torch_tpu::runtime
