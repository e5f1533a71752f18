// Rounded sizes of buffers whose exact size depends on values, so that a new count is no new program.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace torch_tpu::aten {

// Powers of two, up to what the count could be at most.
inline int64_t bucket(int64_t count, int64_t most = std::numeric_limits<int64_t>::max()) {
  constexpr uint64_t kSmallest = 16;
  return std::min(most, static_cast<int64_t>(std::bit_ceil(std::max(static_cast<uint64_t>(count), kSmallest))));
}

}  // namespace torch_tpu::aten
