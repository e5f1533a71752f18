// Numeric building blocks that several pointwise families share.
#pragma once

#include <span>

#include "lowering/op.h"

namespace torch_tpu::lowering {

// Arithmetic with a number, in the type of x.
inline Value operator+(Value x, double c) { return stablehlo::add(x, stablehlo::constant_like(x, c)); }
inline Value operator-(Value x, double c) { return stablehlo::subtract(x, stablehlo::constant_like(x, c)); }
inline Value operator*(Value x, double c) { return stablehlo::multiply(x, stablehlo::constant_like(x, c)); }
inline Value operator/(Value x, double c) { return stablehlo::divide(x, stablehlo::constant_like(x, c)); }
inline Value operator+(double c, Value x) { return stablehlo::add(stablehlo::constant_like(x, c), x); }
inline Value operator-(double c, Value x) { return stablehlo::subtract(stablehlo::constant_like(x, c), x); }
inline Value operator*(double c, Value x) { return x * c; }
inline Value operator/(double c, Value x) { return stablehlo::divide(stablehlo::constant_like(x, c), x); }
inline Value less(Value x, double c) { return stablehlo::less(x, stablehlo::constant_like(x, c)); }
inline Value less_equal(Value x, double c) { return stablehlo::less_equal(x, stablehlo::constant_like(x, c)); }
inline Value greater(Value x, double c) { return stablehlo::greater(x, stablehlo::constant_like(x, c)); }
inline Value greater_equal(Value x, double c) { return stablehlo::greater_equal(x, stablehlo::constant_like(x, c)); }
inline Value equal(Value x, double c) { return stablehlo::equal(x, stablehlo::constant_like(x, c)); }
inline Value not_equal(Value x, double c) { return stablehlo::not_equal(x, stablehlo::constant_like(x, c)); }
inline Value select(Value p, Value x, double c) { return stablehlo::select(p, x, stablehlo::constant_like(x, c)); }
inline Value select(Value p, double c, Value x) { return stablehlo::select(p, stablehlo::constant_like(x, c), x); }

// The type that special functions compute in: f64 on CPU, where it costs little and keeps f32 results correct to the
// last bits; opmath elsewhere.
ElementType special_type(const Target& target, ElementType type);

// Bool: the sign bit of a number, also of zeros and NaN.
Value sign_bit(const Target& target, Value x);
// |x| with the sign bit of y.
Value copy_sign(const Target& target, Value x, Value y);
Value truncate(Value x);     // toward zero
Value any(Value predicate);  // rank 0: whether some element is true
Value conjugate(Value x);

// c[0] + c[1] T1(t) + c[2] T2(t) + ... for t in [-1, 1].
Value chebyshev_series(Value t, std::span<const double> coefficients);

Value erfcx(Value x);     // exp(x^2) erfc(x)
Value log_ndtr(Value x);  // logarithm of the normal distribution function
Value hurwitz_zeta(Value s, Value q);
Value trigamma(Value x);

// |x|, of complex numbers too. On CPU targets complex64's is the nearest number, as CPU's is; XLA's own is the next one
// a third of the time.
Value magnitude(const Target& target, Value x);

// Quotient toward zero and remainder of integers of one type. 64-bit integers on TPU take a long division, as XLA's own
// takes half a minute to compile there.
struct QuotientRemainder {
  Value quotient, remainder;
};
QuotientRemainder divide_integers(const Target& target, Value x, Value y);

// ATen's divisions of integers and floats of one type and equal dims. The remainder has the divisor's sign. Integers
// divided by zero give what XLA gives; who takes divisors from a user reports that first.
Value truncating_divide(const Target& target, Value x, Value y);
Value floor_divide(const Target& target, Value x, Value y);
Value python_remainder(const Target& target, Value x, Value y);

}  // namespace torch_tpu::lowering
