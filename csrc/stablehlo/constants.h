// Constants and iota. Floats are printed so that parsing gives back the same bits.
#pragma once

#include <complex>

#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo {

// Splats of `dims` (rank 0 by default). The value is converted to `type` as C++ would: to bool by != 0.
Value constant(Builder& b, ElementType type, double value, const Dims& dims = {});
Value constant(Builder& b, ElementType type, int64_t value, const Dims& dims = {});
inline Value constant(Builder& b, ElementType type, int value, const Dims& dims = {}) {
  return constant(b, type, static_cast<int64_t>(value), dims);
}
inline Value constant(Builder& b, ElementType type, bool value, const Dims& dims = {}) {
  return constant(b, type, static_cast<int64_t>(value), dims);
}
Value constant(Builder& b, ElementType type, std::complex<double> value, const Dims& dims = {});

// One-dimensional constants (tables, permutations). Integers and floats of any width.
Value constant_vector(Builder& b, ElementType type, std::span<const int64_t> values);
Value constant_vector(Builder& b, ElementType type, std::span<const double> values);

// Extremes of a type, as reductions start from: for floats -inf and +inf, for bool false and true.
Value lowest(Builder& b, ElementType type, const Dims& dims = {});
Value highest(Builder& b, ElementType type, const Dims& dims = {});
Value quiet_nan(Builder& b, ElementType type, const Dims& dims = {});
// Finite limits of a floating type (torch.finfo) and limits of an integer type.
double finite_max(ElementType type);
double epsilon(ElementType type);
double smallest_normal(ElementType type);
int64_t integer_min(ElementType type);
uint64_t integer_max(ElementType type);

Value iota(Builder& b, ElementType type, const Dims& dims, int64_t dimension);

// The literal text of one number, as it stands inside dense<...>.
std::string literal(ElementType type, double value);
std::string literal(ElementType type, int64_t value);

}  // namespace torch_tpu::stablehlo
