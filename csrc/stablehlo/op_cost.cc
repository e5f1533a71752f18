#include "stablehlo/op_cost.h"

#include <cmath>
#include <limits>
#include <unordered_map>

namespace torch_tpu::stablehlo {
namespace {

enum class Kind { kConstant, kMove, kArithmetic, kTranscendental, kSeries, kRandomBits, kOwnKernel };

Kind kind_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Kind> kKinds = {
      {"stablehlo.constant", Kind::kConstant},
      {"stablehlo.bitcast_convert", Kind::kMove},
      {"stablehlo.broadcast_in_dim", Kind::kMove},
      {"stablehlo.complex", Kind::kMove},
      {"stablehlo.concatenate", Kind::kMove},
      {"stablehlo.dynamic_slice", Kind::kMove},
      {"stablehlo.dynamic_update_slice", Kind::kMove},
      {"stablehlo.gather", Kind::kMove},
      {"stablehlo.imag", Kind::kMove},
      {"stablehlo.iota", Kind::kMove},
      {"stablehlo.pad", Kind::kMove},
      {"stablehlo.real", Kind::kMove},
      {"stablehlo.reshape", Kind::kMove},
      {"stablehlo.reverse", Kind::kMove},
      {"stablehlo.slice", Kind::kMove},
      {"stablehlo.transpose", Kind::kMove},
      {"stablehlo.atan2", Kind::kTranscendental},
      {"stablehlo.cbrt", Kind::kTranscendental},
      {"stablehlo.cosine", Kind::kTranscendental},
      {"stablehlo.exponential", Kind::kTranscendental},
      {"stablehlo.exponential_minus_one", Kind::kTranscendental},
      {"stablehlo.log", Kind::kTranscendental},
      {"stablehlo.log_plus_one", Kind::kTranscendental},
      {"stablehlo.logistic", Kind::kTranscendental},
      {"stablehlo.power", Kind::kTranscendental},
      {"stablehlo.rsqrt", Kind::kTranscendental},
      {"stablehlo.sine", Kind::kTranscendental},
      {"stablehlo.sqrt", Kind::kTranscendental},
      {"stablehlo.tan", Kind::kTranscendental},
      {"stablehlo.tanh", Kind::kTranscendental},
      {"stablehlo.rng_bit_generator", Kind::kRandomBits},
      {"stablehlo.cholesky", Kind::kOwnKernel},
      {"stablehlo.convolution", Kind::kOwnKernel},
      {"stablehlo.custom_call", Kind::kOwnKernel},
      {"stablehlo.dot_general", Kind::kOwnKernel},
      {"stablehlo.fft", Kind::kOwnKernel},
      {"stablehlo.if", Kind::kOwnKernel},
      {"stablehlo.optimization_barrier", Kind::kOwnKernel},
      {"stablehlo.reduce_window", Kind::kOwnKernel},
      {"stablehlo.scatter", Kind::kOwnKernel},
      {"stablehlo.select_and_scatter", Kind::kOwnKernel},
      {"stablehlo.sort", Kind::kOwnKernel},
      {"stablehlo.triangular_solve", Kind::kOwnKernel},
      {"stablehlo.while", Kind::kOwnKernel},
      {"chlo.top_k", Kind::kOwnKernel},
      {"func.call", Kind::kOwnKernel},
  };
  if (const auto it = kKinds.find(name); it != kKinds.end()) return it->second;
  return name.starts_with("chlo.") ? Kind::kSeries : Kind::kArithmetic;
}

}  // namespace

double flops_of(std::string_view name, std::span<const TensorType> operands, std::span<const TensorType> results) {
  const auto count = [](const TensorType& t) { return static_cast<double>(t.numel()); };
  // (b m k) (b k n) (b m n) is (m k n)^2 b^3: exact without batch dimensions, and too much with them.
  if (name == "stablehlo.dot_general")
    return 2 * std::sqrt(count(operands[0]) * count(operands[1]) * count(results[0]));
  if (name == "stablehlo.reduce") return count(operands[0]);
  if (name == "stablehlo.optimization_barrier" || name == "func.call") return 0;  // of a function that does nothing
  switch (kind_of(name)) {
    case Kind::kConstant:
    case Kind::kMove:
    case Kind::kTranscendental:
      return 0;
    case Kind::kArithmetic:
      return count(results[0]);
    case Kind::kSeries:
    case Kind::kRandomBits:
    case Kind::kOwnKernel:
      break;
  }
  return std::numeric_limits<double>::infinity();
}

int fusible_work_of(std::string_view name) {
  switch (kind_of(name)) {
    case Kind::kMove:
    case Kind::kArithmetic:
      return 1;
    case Kind::kTranscendental:
      return 8;
    case Kind::kSeries:
      return 32;
    case Kind::kRandomBits:
      return 128;
    case Kind::kConstant:
    case Kind::kOwnKernel:
      break;
  }
  return 0;
}

}  // namespace torch_tpu::stablehlo
