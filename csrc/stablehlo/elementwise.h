// Elementwise StableHLO and CHLO ops (https://openxla.org/stablehlo/spec). Operands of one op have equal dims; there is
// no implicit broadcasting and no implicit conversion here.
#pragma once

#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo {

// clang-format off: it has no stable layout for these lists
#define TORCH_TPU_UNARY_OPS(V)                                                                                 \
  V(negate) V(exponential) V(exponential_minus_one) V(log) V(log_plus_one) V(logistic) V(tanh) V(tan) V(sine)  \
  V(cosine) V(sqrt) V(rsqrt) V(cbrt) V(ceil) V(floor) V(round_nearest_even) V(round_nearest_afz) V(sign)       \
  V(popcnt) V(count_leading_zeros)
#define TORCH_TPU_CHLO_UNARY_OPS(V)                                                                             \
  V(erf_inv) V(lgamma) V(digamma) V(asin) V(acos) V(atan) V(sinh) V(cosh) V(asinh) V(acosh) V(atanh) V(bessel_i1e)
#define TORCH_TPU_BINARY_OPS(V)                                                                                \
  V(add) V(subtract) V(multiply) V(divide) V(remainder) V(power) V(maximum) V(minimum) V(atan2) V(shift_left)  \
  V(shift_right_arithmetic) V(shift_right_logical)
#define TORCH_TPU_CHLO_BINARY_OPS(V) V(polygamma) V(zeta) V(next_after)
// clang-format on

#define TORCH_TPU_DECLARE_UNARY(name) Value name(Value x);
#define TORCH_TPU_DECLARE_BINARY(name) Value name(Value x, Value y);
TORCH_TPU_UNARY_OPS(TORCH_TPU_DECLARE_UNARY)
TORCH_TPU_CHLO_UNARY_OPS(TORCH_TPU_DECLARE_UNARY)
TORCH_TPU_BINARY_OPS(TORCH_TPU_DECLARE_BINARY)
TORCH_TPU_CHLO_BINARY_OPS(TORCH_TPU_DECLARE_BINARY)
#undef TORCH_TPU_DECLARE_UNARY
#undef TORCH_TPU_DECLARE_BINARY

Value abs(Value x);  // of a complex value: its real modulus
// Bitwise on integers, logical on bool.
Value logical_and(Value x, Value y);
Value logical_or(Value x, Value y);
Value logical_xor(Value x, Value y);
Value logical_not(Value x);

// Of float32: exactly 1, or 2, where that is the nearest number. XLA's series end some units short of it.
Value erf(Value x);
Value erfc(Value x);

Value is_finite(Value x);
Value is_nan(Value x);  // floating: x != x; complex: either part; integers and bool: false
Value is_inf(Value x);  // floating: |x| == inf; complex: either part; integers and bool: false

enum class Comparison { kEq, kNe, kLt, kLe, kGt, kGe };
Value compare(Comparison direction, Value x, Value y);
inline Value equal(Value x, Value y) { return compare(Comparison::kEq, x, y); }
inline Value not_equal(Value x, Value y) { return compare(Comparison::kNe, x, y); }
inline Value less(Value x, Value y) { return compare(Comparison::kLt, x, y); }
inline Value less_equal(Value x, Value y) { return compare(Comparison::kLe, x, y); }
inline Value greater(Value x, Value y) { return compare(Comparison::kGt, x, y); }
inline Value greater_equal(Value x, Value y) { return compare(Comparison::kGe, x, y); }

// `predicate` is bool of the same dims or rank 0.
Value select(Value predicate, Value on_true, Value on_false);
Value clamp(Value low, Value x, Value high);  // low, high: the dims of x or rank 0

Value real(Value x);
Value imag(Value x);
Value complex(Value re, Value im);

// ATen's conversion between element types: to bool by != 0 (NaN is true), complex to real takes the real part, float to
// integer truncates toward 0 and wraps from int64 for narrower and unsigned types, as x86 CPUs do.
Value convert(Value x, ElementType to);
// Same bits, another type. Narrower: adds a minor dim of the ratio; wider: consumes it.
Value bitcast_convert(Value x, ElementType to);
Value reduce_precision(Value x, int exponent_bits, int mantissa_bits);

inline Value operator+(Value x, Value y) { return add(x, y); }
inline Value operator-(Value x, Value y) { return subtract(x, y); }
inline Value operator*(Value x, Value y) { return multiply(x, y); }
inline Value operator/(Value x, Value y) { return divide(x, y); }
inline Value operator-(Value x) { return negate(x); }

// A constant of x's type and dims.
Value constant_like(Value x, double value);
Value constant_like(Value x, int64_t value);
inline Value constant_like(Value x, int value) { return constant_like(x, static_cast<int64_t>(value)); }

}  // namespace torch_tpu::stablehlo
