// Counters that torch.tpu.metrics() shows. Process-wide; reset() clears them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "runtime/flush_reason.h"

namespace torch_tpu::runtime {

struct Metrics {
  std::atomic<int64_t> compiles{0}, cache_hits_memory{0}, cache_hits_disk{0}, executions{0};
  std::atomic<int64_t> bytes_h2d{0}, bytes_d2h{0}, transfers_h2d{0}, transfers_d2h{0};
  std::atomic<int64_t> compile_nanoseconds{0}, lowering_nanoseconds{0}, load_nanoseconds{0};
  std::atomic<int64_t> disk_errors{0};
  std::atomic<int64_t> programs_dropped{0};  // for the cap on programs in memory
  // Fused mode: ops recorded, and traces flushed by FlushReason.
  std::atomic<int64_t> fused_ops{0};
  std::array<std::atomic<int64_t>, kFlushReasons> flushes{};

  void count_fallback(const std::string& op);
  std::map<std::string, int64_t> fallbacks() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> fallbacks_;
};

Metrics& metrics();

}  // namespace torch_tpu::runtime
