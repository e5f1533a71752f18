#include "lowering/math.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"

namespace torch_tpu::lowering {

ElementType special_type(const Target& target, ElementType type) {
  const ElementType t = opmath_type(type);
  return target.is_cpu() && t == ElementType::kF32 ? ElementType::kF64 : t;
}

Value sign_bit(const Target& target, Value x) {
  const ElementType e = x.element();
  if (is_bool(e) || is_unsigned_integer(e)) return constant(x.builder(), ElementType::kPred, false, x.dims());
  if (is_floating(e)) {
    // TPU has no bitcast of f64: there the sign of a NaN is lost.
    if (e == ElementType::kF64 && target.is_tpu())
      return logical_or(less(x, 0), logical_and(equal(x, 0), less(1.0 / x, 0)));
    const ElementType bits = byte_size(e) == 1   ? ElementType::kS8
                             : byte_size(e) == 2 ? ElementType::kS16
                             : byte_size(e) == 4 ? ElementType::kS32
                                                 : ElementType::kS64;
    x = bitcast_convert(x, bits);
  }
  return less(x, 0);
}

Value copy_sign(const Target& target, Value x, Value y) {
  Value magnitude = abs(x);
  return select(sign_bit(target, y), negate(magnitude), magnitude);
}

Value truncate(Value x) { return select(less(x, 0), ceil(x), floor(x)); }

Value any(Value predicate) { return reduce_or(predicate, all_dims(predicate.rank())); }

Value conjugate(Value x) {
  if (!is_complex(x.element())) return x;
  return complex(real(x), negate(imag(x)));
}

Value chebyshev_series(Value t, std::span<const double> c) {
  // Clenshaw's recurrence.
  Value twice = t * 2.0, b1 = constant_like(t, c.back()), b2 = constant_like(t, 0.0);
  for (size_t k = c.size() - 1; k-- > 1;) {
    Value b0 = add(subtract(multiply(twice, b1), b2), constant_like(t, c[k]));
    b2 = b1;
    b1 = b0;
  }
  return subtract(multiply(t, b1), b2) + c[0];
}

Value erfcx(Value x) {
  const bool wide = x.element() == ElementType::kF64;
  // Where the product's relative error x^2 eps grows, the continued fraction has converged.
  const double limit = wide ? 6 : 2.5;
  Value large = greater(x, limit);
  Value direct = select(large, 0.0, x);
  direct = exponential(direct * direct) * erfc(direct);
  Value z = select(large, x, limit);
  Value tail = z;
  for (int k = wide ? 30 : 24; k >= 1; --k) tail = z + (k * 0.5) / tail;
  Value far = std::numbers::inv_sqrtpi / tail;
  return select(large, far, direct);
}

Value log_ndtr(Value x) {
  const double half_sqrt2 = std::numbers::sqrt2 / 2;
  Value low = less(x, -1.0);
  Value t = x * half_sqrt2;
  Value below = select(low, t, -1.0);
  Value tail = log(erfcx(negate(below)) * 0.5) - below * below;
  Value body = log_plus_one(erfc(select(low, 0.0, t)) * -0.5);
  return select(low, tail, body);
}

Value hurwitz_zeta(Value s, Value q) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // Euler-Maclaurin after enough leading terms that q + n is above 10. Where q is far below zero the terms in front of
  // that are summed as well.
  constexpr int kTerms = 10;
  // Poles need no sum; a bound keeps the loop finite.
  Value whole = floor(q);
  Value summed = logical_and(less(q, 0), not_equal(q, whole));
  Value negative_terms = minimum(select(summed, negate(whole), 0.0), constant_like(q, 1e6));
  Value zero = constant_like(q, 0);
  auto state = while_loop(
      std::vector<Value>{zero, zero, s, q, negative_terms},
      [](std::span<const Value> v) { return any(less(v[1], v[4])); },
      [](std::span<const Value> v) {
        Value term = power(add(v[3], v[1]), negate(v[2]));
        Value active = less(v[1], v[4]);
        return std::vector<Value>{select(active, add(v[0], term), v[0]), v[1] + 1.0, v[2], v[3], v[4]};
      });
  Value sum = state[0];
  Value a = q + negative_terms;
  for (int k = 0; k < kTerms; ++k) {
    sum = sum + power(a, negate(s));
    a = a + 1.0;
  }
  Value power_s = power(a, negate(s));
  Value tail = a * power_s / (s - 1.0) + power_s * 0.5;
  // B_2k / (2k)! s (s+1) ... (s+2k-2) a^(-s-2k+1)
  constexpr double kBernoulli[] = {1.0 / 12,
                                   -1.0 / 720,
                                   1.0 / 30240,
                                   -1.0 / 1209600,
                                   1.0 / 47900160,
                                   -691.0 / 1307674368000.0,
                                   1.0 / 74724249600.0,
                                   -3617.0 / 10670622842880000.0,
                                   43867.0 / 5109094217170944000.0};
  Value factor = s * power_s / a;
  Value inverse_square = 1.0 / (a * a);
  for (int k = 0; k < 9; ++k) {
    tail = tail + factor * kBernoulli[k];
    factor = factor * (s + (2.0 * k + 1)) * (s + (2.0 * k + 2)) * inverse_square;
  }
  Value result = sum + tail;
  // a^-s underflows to 0 and the tail to 0 * inf for great s: the leading terms are the sum.
  result = select(is_nan(tail), sum, result);
  result = select(logical_or(is_nan(s), is_nan(q)), std::nan(""), result);
  result = select(logical_and(less_equal(q, 0), not_equal(s, floor(s))), std::nan(""), result);
  result = select(logical_and(less_equal(q, 0), equal(q, floor(q))), kInf, result);
  result = select(less(s, 1), std::nan(""), result);
  return select(equal(s, 1), kInf, result);
}

Value trigamma(Value x) {
  Value reflect = less(x, 0.5);
  Value a = select(reflect, 1.0 - x, x);
  Value sum = constant_like(a, 0.0);
  for (int k = 0; k < 8; ++k) {
    sum = sum + 1.0 / (a * a);
    a = a + 1.0;
  }
  Value z = 1.0 / (a * a);
  constexpr double kSeries[] = {-691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6};
  Value poly = constant_like(a, 7.0 / 6);
  for (double c : kSeries) poly = poly * z + c;
  sum = sum + (1.0 + 0.5 / a + poly * z) / a;
  // The fraction of x keeps the sine exact far from zero.
  Value s = sine((x - floor(x)) * std::numbers::pi);
  Value reflected = (std::numbers::pi * std::numbers::pi) / (s * s) - sum;
  return select(reflect, reflected, sum);
}

namespace {

// One bit of the quotient per turn, from the top.
QuotientRemainder long_division(Value x, Value y) {
  Builder& b = x.builder();
  Value zero = constant_like(x, 0);
  auto state = while_loop(
      std::vector<Value>{constant(b, ElementType::kS32, 0), zero, zero, x, y},
      [&](std::span<const Value> v) { return less(v[0], constant(b, ElementType::kS32, 64)); },
      [&](std::span<const Value> v) {
        Value one = constant_like(v[3], 1);
        Value high = shift_right_logical(v[2], constant_like(v[2], 63));  // a 65th bit of the remainder
        Value r = logical_or(shift_left(v[2], one), shift_right_logical(v[3], constant_like(v[3], 63)));
        Value fits = logical_or(not_equal(high, constant_like(high, 0)), greater_equal(r, v[4]));
        Value q = shift_left(v[1], one);
        return std::vector<Value>{add(v[0], constant(b, ElementType::kS32, 1)), select(fits, logical_or(q, one), q),
                                  select(fits, subtract(r, v[4]), r), shift_left(v[3], one), v[4]};
      });
  return {state[1], state[2]};
}

}  // namespace

Value magnitude(const Target& target, Value x) {
  if (!target.is_cpu() || x.element() != ElementType::kC64) return abs(x);
  // In float64 the squares are exact and none overflows.
  Value re = convert(real(x), ElementType::kF64), im = convert(imag(x), ElementType::kF64);
  Value length = convert(sqrt(re * re + im * im), ElementType::kF32);
  return select(is_inf(x), constant_like(length, std::numeric_limits<double>::infinity()), length);
}

QuotientRemainder divide_integers(const Target& target, Value x, Value y) {
  if (!target.is_tpu() || byte_size(x.element()) < 8) return {divide(x, y), remainder(x, y)};
  if (is_unsigned_integer(x.element())) return long_division(x, y);
  Value x_negative = less(x, 0), y_negative = less(y, 0);
  auto magnitude = [](Value v) { return convert(abs(v), ElementType::kU64); };
  QuotientRemainder u = long_division(magnitude(x), magnitude(y));
  Value q = convert(u.quotient, x.element()), r = convert(u.remainder, x.element());
  return {select(not_equal(x_negative, y_negative), negate(q), q), select(x_negative, negate(r), r)};
}

Value truncating_divide(const Target& target, Value x, Value y) {
  return is_integer(x.element()) ? divide_integers(target, x, y).quotient : truncate(divide(x, y));
}

namespace {

// Where rounding toward zero and rounding down differ: the remainder is not zero and its sign is not the divisor's.
Value rounds_up(Value r, Value y) { return logical_and(not_equal(r, 0), not_equal(less(r, 0), less(y, 0))); }

}  // namespace

Value floor_divide(const Target& target, Value x, Value y) {
  if (is_integer(x.element())) {
    auto [q, r] = divide_integers(target, x, y);
    return is_unsigned_integer(x.element()) ? q : select(rounds_up(r, y), q - 1, q);
  }
  // c10::div_floor_floating: through fmod, so that the result is the exact floor and not the floor of a rounded
  // quotient.
  Value mod = remainder(x, y);
  Value div = divide(subtract(x, mod), y);
  div = select(rounds_up(mod, y), div - 1, div);
  Value floored = floor(div);
  floored = select(greater(div - floored, 0.5), floored + 1, floored);
  // A zero quotient keeps the sign of x / y.
  Value quotient = divide(x, y);
  Value signed_zero = multiply(constant_like(x, 0), sign(quotient));
  Value result = select(equal(div, 0), signed_zero, floored);
  return select(equal(y, 0), quotient, result);
}

Value python_remainder(const Target& target, Value x, Value y) {
  Value r = is_integer(x.element()) ? divide_integers(target, x, y).remainder : remainder(x, y);
  return is_unsigned_integer(x.element()) ? r : select(rounds_up(r, y), r + y, r);
}

}  // namespace torch_tpu::lowering
