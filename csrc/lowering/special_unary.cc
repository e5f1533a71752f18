// Bessel and Airy functions, from the Chebyshev fits of special_tables.h. Computed in f64 on CPU, f32 on TPU unless the
// tensor is f64.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"
#include "lowering/special_tables.h"

namespace torch_tpu::lowering {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = std::numbers::pi;

using Function = Value (*)(Value);

template <Function F>
Value special(Op& op) {
  std::string_view arg = op.has("self") ? "self" : "x";
  return F(op.tensor(arg, special_type(op.target(), to_float(op, op.element(arg)))));
}

// exp(-|x|) I0(x)
Value i0e(Value x) {
  Value a = abs(x), large = greater(a, 8);
  Value small_value = chebyshev_series(select(large, 8.0, a) * 0.25 - 1.0, kI0Small);
  Value l = select(large, a, 8.0);
  return select(large, chebyshev_series(16.0 / l - 1.0, kI0Large) * rsqrt(l), small_value);
}

// exp(-|x|) I1(x)
Value i1e(Value x) {
  Value a = abs(x), large = greater(a, 8);
  Value s = select(large, 8.0, a);
  Value small_value = s * chebyshev_series(s * 0.25 - 1.0, kI1Small);
  Value l = select(large, a, 8.0);
  Value result = select(large, chebyshev_series(16.0 / l - 1.0, kI1Large) * rsqrt(l), small_value);
  return select(less(x, 0), negate(result), result);
}

// As ATen's, NaN at infinity.
Value i0(Value x) { return i0e(x) * exponential(abs(x)); }
Value i1(Value x) { return i1e(x) * exponential(abs(x)); }

template <int kOrder, bool kScaled>
Value modified_k(Value x) {
  Value large = greater(x, 2);
  Value valid = greater(x, 0);
  Value s = select(logical_and(valid, less_equal(x, 2)), x, 1.0);
  Value t = s * s * 0.5 - 1.0;
  Value log_half = log(s * 0.5);
  Value growth = exponential(s);
  Value small_value = kOrder == 0 ? chebyshev_series(t, kK0Small) - log_half * i0e(s) * growth
                                  : chebyshev_series(t, kK1Small) / s + log_half * i1e(s) * growth;
  if (kScaled) small_value = small_value * growth;
  Value l = select(large, x, 2.0);
  Value large_value =
      chebyshev_series(4.0 / l - 1.0, kOrder == 0 ? std::span<const double>(kK0Large) : kK1Large) * rsqrt(l);
  if (!kScaled) large_value = large_value * exponential(negate(l));
  Value result = select(large, large_value, small_value);
  result = select(less(x, 0), std::nan(""), result);
  result = select(equal(x, 0), kInf, result);
  return select(is_nan(x), x, result);
}

// Bessel functions above 8: modulus and phase. `second_kind` takes the sine in the place of the cosine.
Value bessel_large(Value x, int order, bool second_kind) {
  Value inverse = 8.0 / x;
  Value t = inverse * inverse * 2.0 - 1.0;
  Value p = chebyshev_series(t, order == 0 ? std::span<const double>(kPhase0P) : kPhase1P);
  Value q = chebyshev_series(t, order == 0 ? std::span<const double>(kPhase0Q) : kPhase1Q) / x;
  // cos and sin of x - (2 order + 1) pi/4, from those of x itself: subtracting first would round a large x.
  Value c = cosine(x), s = sine(x);
  Value phase_cos = order == 0 ? c + s : s - c, phase_sin = order == 0 ? s - c : negate(s + c);
  Value wave = second_kind ? p * phase_sin + q * phase_cos : p * phase_cos - q * phase_sin;
  return wave * rsqrt(x * kPi);
}

Value bessel_j_small(Value x, int order) {
  Value t = x * x * (1.0 / 32) - 1.0;
  return order == 0 ? chebyshev_series(t, kJ0Small) : x * chebyshev_series(t, kJ1Small);
}

template <int kOrder>
Value bessel_j(Value x) {
  Value a = abs(x), large = greater(a, 8);
  Value result =
      select(large, bessel_large(select(large, a, 8.0), kOrder, false), bessel_j_small(select(large, 8.0, a), kOrder));
  return kOrder == 1 ? select(less(x, 0), negate(result), result) : result;
}

template <int kOrder>
Value bessel_y(Value x) {
  Value large = greater(x, 8);
  Value s = select(logical_and(greater(x, 0), less_equal(x, 8)), x, 1.0);
  Value t = s * s * (1.0 / 32) - 1.0;
  Value log_part = log(s) * bessel_j_small(s, kOrder);
  Value small_value = kOrder == 0 ? chebyshev_series(t, kY0Small) + log_part * (2 / kPi)
                                  : s * chebyshev_series(t, kY1Small) + (log_part - 1.0 / s) * (2 / kPi);
  Value result = select(large, bessel_large(select(large, x, 8.0), kOrder, true), small_value);
  result = select(less(x, 0), std::nan(""), result);
  result = select(equal(x, 0), -kInf, result);
  return select(is_nan(x), x, result);
}

Value spherical_bessel_j0(Value x) {
  Value small = less(abs(x), 0.5);
  Value s = select(small, x, 0.0), square = s * s;
  Value series = constant_like(x, 0.0);
  for (int k = 7; k >= 1; --k) series = (series + 1.0) * square * (-1.0 / ((2.0 * k) * (2.0 * k + 1)));
  Value l = select(small, 1.0, x);
  Value result = select(small, series + 1.0, sine(l) / l);
  return select(equal(abs(x), kInf), 0.0, result);
}

Value airy_ai(Value x) {
  Value positive = greater(x, 4), negative = less(x, -4);
  Value middle = chebyshev_series(select(logical_or(positive, negative), 0.0, x) * 0.25, kAiryMiddle);
  auto argument = [&](Value a) { return a * sqrt(a) * (2.0 / 3); };
  Value p = select(positive, x, 4.0), zp = argument(p);
  Value right = chebyshev_series(32.0 / (zp * 3.0) - 1.0, kAiryPositive) * exponential(negate(zp)) /
                (sqrt(sqrt(p)) * (2 * std::sqrt(kPi)));
  Value n = select(negative, negate(x), 4.0), zn = argument(n);
  Value t = 512.0 / (zn * zn * 9.0) - 1.0;
  // sin and cos of z + pi/4
  Value c = cosine(zn), s = sine(zn);
  Value phase_sin = (s + c) * (std::numbers::sqrt2 / 2), phase_cos = (c - s) * (std::numbers::sqrt2 / 2);
  Value left =
      (chebyshev_series(t, kAiryNegativeP) * phase_sin - chebyshev_series(t, kAiryNegativeQ) / zn * phase_cos) /
      (sqrt(sqrt(n)) * std::sqrt(kPi));
  Value result = select(positive, right, select(negative, left, middle));
  // As ATen: infinities give NaN, what underflows gives 0.
  result = select(greater(x, 103.892), 0.0, result);
  return select(logical_or(is_nan(x), equal(abs(x), kInf)), std::nan(""), result);
}

}  // namespace

void register_special_unary(Registry& r) {
  r.add("i0", special<i0>);
  r.add("special_i0e", special<i0e>);
  r.add("special_i1", special<i1>);
  r.add("special_i1e", special<i1e>);
  r.add("special_modified_bessel_i0", special<i0>);
  r.add("special_modified_bessel_i1", special<i1>);
  r.add("special_modified_bessel_k0", special<modified_k<0, false>>);
  r.add("special_modified_bessel_k1", special<modified_k<1, false>>);
  r.add("special_scaled_modified_bessel_k0", special<modified_k<0, true>>);
  r.add("special_scaled_modified_bessel_k1", special<modified_k<1, true>>);
  r.add("special_bessel_j0", special<bessel_j<0>>);
  r.add("special_bessel_j1", special<bessel_j<1>>);
  r.add("special_bessel_y0", special<bessel_y<0>>);
  r.add("special_bessel_y1", special<bessel_y<1>>);
  r.add("special_spherical_bessel_j0", special<spherical_bessel_j0>);
  r.add("special_airy_ai", special<airy_ai>);
}

}  // namespace torch_tpu::lowering
