#include "runtime/memory_maps.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/log.h"
#include "runtime/program_cache.h"
#include "runtime/trace_program.h"

namespace torch_tpu::runtime {
namespace {

// Counting takes milliseconds. A map comes with at least a kilobyte of program: this is a sixtieth of the usual limit.
constexpr int64_t kBytesBetweenCounts = int64_t{1} << 20;

// Of this process; -1 where the system does not say.
int64_t count_memory_maps() {
  std::ifstream maps("/proc/self/maps");
  if (!maps) return -1;
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

int64_t memory_map_limit() {
  static const int64_t limit = [] {
    int64_t value = -1;
    std::ifstream("/proc/sys/vm/max_map_count") >> value;
    return value > 0 ? value : -1;
  }();
  return limit;
}

}  // namespace

void stay_below_map_limit(int64_t bytes) {
  static std::atomic<int64_t> since_count{0};
  if (since_count.fetch_add(bytes) + bytes < kBytesBetweenCounts) return;
  since_count = 0;
  const int64_t limit = memory_map_limit(), maps = limit < 0 ? -1 : count_memory_maps();
  if (maps <= limit * 3 / 4) return;
  log("cache", LogLevel::kInfo,
      std::to_string(maps) + " of " + std::to_string(limit) +
          " memory maps are used: half of the programs are dropped");
  ProgramCache::instance().drop_half();
  TraceCache::instance().drop_half();
}

}  // namespace torch_tpu::runtime
