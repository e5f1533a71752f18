#include "aten/settings.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>

#include "aten/bridge.h"

namespace torch_tpu::aten {

Settings& settings() {
  static auto* const instance = new Settings;
  return *instance;
}

lowering::Numerics current_numerics() {
  using stablehlo::DotPrecision;
  lowering::Numerics n;
  const int override = settings().precision_override.load(std::memory_order_relaxed);
  if (override >= 0) {
    n.matmul_precision = static_cast<DotPrecision>(override);
  } else {
    switch (at::globalContext().float32MatmulPrecision()) {
      case at::Float32MatmulPrecision::HIGHEST:
        n.matmul_precision = DotPrecision::kHighest;
        break;
      case at::Float32MatmulPrecision::HIGH:
        n.matmul_precision = DotPrecision::kHigh;
        break;
      default:
        n.matmul_precision = DotPrecision::kDefault;
    }
  }
  n.allow_excess_precision = settings().allow_excess_precision.load(std::memory_order_relaxed);
  n.default_float = to_element_type(c10::get_default_dtype_as_scalartype());
  return n;
}

uint64_t numerics_word(const lowering::Numerics& n) {
  return static_cast<uint64_t>(n.matmul_precision) | static_cast<uint64_t>(n.allow_excess_precision) << 4 |
         static_cast<uint64_t>(n.default_float) << 8;
}

}  // namespace torch_tpu::aten
