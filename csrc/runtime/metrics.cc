#include "runtime/metrics.h"

namespace torch_tpu::runtime {

void Metrics::count_fallback(const std::string& op) {
  std::lock_guard lock(mutex_);
  ++fallbacks_[op];
}

std::map<std::string, int64_t> Metrics::fallbacks() const {
  std::lock_guard lock(mutex_);
  return fallbacks_;
}

void Metrics::reset() {
  for (auto* counter : {&compiles, &cache_hits_memory, &cache_hits_disk, &executions, &bytes_h2d, &bytes_d2h,
                        &transfers_h2d, &transfers_d2h, &compile_nanoseconds, &lowering_nanoseconds, &load_nanoseconds,
                        &disk_errors, &programs_dropped, &fused_ops})
    *counter = 0;
  for (auto& counter : flushes) counter = 0;
  std::lock_guard lock(mutex_);
  fallbacks_.clear();
}

Metrics& metrics() {
  static Metrics* const instance = new Metrics;  // outlives interpreter shutdown
  return *instance;
}

}  // namespace torch_tpu::runtime
