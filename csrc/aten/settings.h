// Process-wide settings of the bridge.
#pragma once

#include <atomic>

#include "lowering/op.h"

namespace torch_tpu::aten {

enum class FallbackPolicy : int { kWarn, kError, kAllow };

struct Settings {
  std::atomic<FallbackPolicy> fallback{FallbackPolicy::kWarn};
  // -1: torch.get_float32_matmul_precision() decides; else a DotPrecision (torch.tpu.precision).
  std::atomic<int> precision_override{-1};
  std::atomic<bool> allow_excess_precision{false};
};
Settings& settings();

// What programs are built under now, and the same as a word of the key.
lowering::Numerics current_numerics();
uint64_t numerics_word(const lowering::Numerics& n);

}  // namespace torch_tpu::aten
