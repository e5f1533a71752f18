// Unary ops: one value in, one value out.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string_view argument_name(const Op& op) { return op.has("self") ? "self" : "x"; }

// The argument as the "float" ops compute on it: integers in the default float, reduced floats in f32.
Value float_operand(const Op& op) {
  std::string_view arg = argument_name(op);
  return op.tensor(arg, opmath_type(to_float(op, op.element(arg))));
}

using Function = Value (*)(Value);

template <Function F>
Value float_unary(Op& op) {
  return F(float_operand(op));
}

[[noreturn]] void refuse(const std::string& kernel, ElementType t) {
  throw Unsupported("\"" + kernel + "\" not implemented for '" + name_of(t) + "'");
}

// Single calls are refused before they come here; those of a foreach are not.
Value real_operand(Op& op) {
  if (is_complex(op.element("self"))) refuse(op.name() + "_vml_cpu", op.element("self"));
  return float_operand(op);
}

template <Function F>
Value real_unary(Op& op) {
  return F(real_operand(op));
}

// Integers pass unchanged; the CPU's kernels take neither bool nor complex numbers.
template <Function F>
Value rounding(Op& op) {
  const ElementType t = op.element("self");
  if (is_bool(t) || is_complex(t)) refuse(op.name() + "_vml_cpu", t);
  if (!is_floating(t)) return op.tensor("self");
  return F(op.tensor("self", opmath_type(t)));
}

Value absolute(Op& op) {
  Value x = op.tensor("self");
  if (is_bool(x.element())) refuse("abs_cpu", x.element());
  return magnitude(op.target(), x);
}
Value negative(Op& op) {
  Value x = op.tensor("self");
  if (is_bool(x.element()))
    throw CallError(
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
        "`~` or `logical_not()` operator instead.");
  return negate(x);
}
Value reciprocal(Value x) { return 1.0 / x; }
Value reciprocal_sqrt(Value x) {
  if (is_complex(x.element())) return divide(constant_like(x, 1), sqrt(x));
  return rsqrt(x);
}

Value exp2(Op& op) {
  Value x = float_operand(op);
  if (is_complex(x.element())) return exponential(x * std::numbers::ln2);
  return power(constant_like(x, 2), x);
}

// On CPU in f64, so that powers of the base give whole numbers.
template <bool kDecimal>
Value scaled_log(Op& op) {
  Value x = float_operand(op);
  const ElementType t = x.element();
  if (!is_complex(t)) x = convert(x, special_type(op.target(), t));
  return log(x) / (kDecimal ? std::numbers::ln10 : std::numbers::ln2);
}

// f32 in f64 on CPU.
template <Function F>
Value precise_unary(Op& op) {
  Value x = float_operand(op);
  return F(convert(x, special_type(op.target(), x.element())));
}

Value digamma(Op& op) {
  Value x = float_operand(op);
  x = convert(x, special_type(op.target(), x.element()));
  // The pole at zero has the sign of -x.
  Value at_zero = copy_sign(op.target(), constant_like(x, kInf), negate(x));
  return select(equal(x, 0), at_zero, stablehlo::digamma(x));
}

Value polygamma(Op& op) {
  const int64_t n = op.integer("n");
  if (n < 0) throw CallError("polygamma(n, x) does not support negative n.");
  Value x = float_operand(op);
  x = convert(x, special_type(op.target(), x.element()));
  if (n == 0) return digamma(op);
  if (n == 1) return trigamma(x);
  const double factorial = std::tgamma(static_cast<double>(n) + 1);
  return hurwitz_zeta(constant_like(x, static_cast<double>(n) + 1), x) * (n % 2 ? factorial : -factorial);
}

// log of the multivariate gamma function of p dims.
Value mvlgamma(Op& op) {
  const int64_t p = op.integer("p");
  if (p < 1) throw CallError("p has to be greater than or equal to 1");
  Value x = float_operand(op);
  x = convert(x, special_type(op.target(), x.element()));
  const auto dims = static_cast<double>(p);
  Value sum = constant_like(x, dims * (dims - 1) / 4 * std::log(std::numbers::pi));
  for (int64_t j = 0; j < p; ++j) sum = sum + lgamma(x - 0.5 * static_cast<double>(j));
  return sum;
}

Value logit(Op& op) {
  Value x = float_operand(op);
  if (op.has("eps")) {
    Value eps = like(x, op.scalar("eps", x.element()));
    // A negative eps means none.
    Value off = less(eps, 0);
    Value low = select(off, -kInf, eps), high = select(off, kInf, 1.0 - eps);
    x = select(less(x, low), low, select(greater(x, high), high, x));
  }
  return log(x / (1.0 - x));
}

Value round_decimals(Op& op) {
  const ElementType t = op.element("self");
  if (is_bool(t) || is_complex(t)) refuse("round_cpu", t);
  if (!is_floating(t)) return op.tensor("self");
  const int64_t decimals = op.integer("decimals");
  Value x = op.tensor("self", opmath_type(t));
  if (decimals == 0) return round_nearest_even(x);
  Value factor = constant_like(x, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  Value scaled = round_nearest_even(decimals < 0 ? x / factor : x * factor);
  return decimals < 0 ? scaled * factor : scaled / factor;
}

Value frac(Op& op) {
  const ElementType t = op.element("self");
  if (!is_floating(t)) refuse("frac_cpu", t);
  Value x = op.tensor("self", opmath_type(t));
  return x - truncate(x);
}

Value sign(Op& op) {
  Value x = op.tensor("self");
  const ElementType t = x.element();
  if (is_bool(t)) return x;
  if (is_complex(t)) {
    Value modulus = abs(x);
    Value unit = complex(real(x) / modulus, imag(x) / modulus);
    return select(equal(modulus, 0), constant_like(x, 0), unit);
  }
  // NaN and -0 give 0.
  return convert(greater(x, 0), t) - convert(less(x, 0), t);
}

Value sign_of_real(Op& op) {
  if (is_complex(op.element("self")))
    throw Unsupported(
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.");
  return sign(op);
}

Value signbit(Op& op) { return sign_bit(op.target(), op.tensor("self")); }
Value isnan(Op& op) { return is_nan(op.tensor("self")); }
Value isinf(Op& op) { return is_inf(op.tensor("self")); }

template <bool kNegative>
Value is_signed_inf(Op& op) {
  Value x = op.tensor("self");
  if (!is_floating(x.element())) return constant(op.builder(), ElementType::kPred, false, x.dims());
  return equal(x, kNegative ? -kInf : kInf);
}

Value bitwise_not(Op& op) { return logical_not(op.tensor("self")); }
Value logical_not_(Op& op) { return logical_not(op.tensor("self", ElementType::kPred)); }

Value angle(Op& op) {
  Value x = float_operand(op);
  if (is_complex(x.element())) return atan2(imag(x), real(x));
  return select(is_nan(x), x, select(less(x, 0), constant_like(x, std::numbers::pi), constant_like(x, 0)));
}

Value conj_physical(Op& op) { return conjugate(op.tensor("self")); }

Value nan_to_num(Op& op) {
  Value x = op.tensor("self");
  if (!is_floating(x.element()) && !is_complex(x.element())) return x;
  const ElementType t = real_type(x.element());
  auto number = [&](const char* arg, double otherwise) {
    return op.has(arg) ? op.scalar(arg, t) : constant(op.builder(), t, otherwise);
  };
  auto replace = [&](Value v) {
    Value result = select(is_nan(v), like(v, number("nan", 0)), v);
    result = select(equal(v, kInf), like(v, number("posinf", stablehlo::finite_max(t))), result);
    return select(equal(v, -kInf), like(v, number("neginf", -stablehlo::finite_max(t))), result);
  };
  if (is_complex(x.element())) return stablehlo::complex(replace(real(x)), replace(imag(x)));
  return replace(x);
}

Value sinc(Value x) {
  if (is_complex(x.element())) {
    Value zero = stablehlo::equal(x, constant_like(x, 0));
    Value t = x * constant_like(x, std::numbers::pi);
    return select(zero, constant_like(x, 1), sine(t) / t);
  }
  Value zero = equal(x, 0);
  Value t = x * std::numbers::pi;
  return select(zero, 1.0, sine(t) / t);
}

Value entropy(Value x) {
  Value result = select(equal(x, 0), constant_like(x, 0), negate(x) * log(x));
  result = select(less(x, 0), -kInf, result);
  return select(is_nan(x), x, result);
}

Value lgamma(Op& op) {
  Value x = real_operand(op);
  return stablehlo::lgamma(convert(x, special_type(op.target(), x.element())));
}
Value erfinv(Value x) {
  Value magnitude = abs(x);
  Value edge = select(less(x, 0), constant_like(x, -kInf), constant_like(x, kInf));
  Value result = select(equal(magnitude, 1), edge, erf_inv(x));
  return select(greater(magnitude, 1), std::nan(""), result);
}

// The quantile of the normal distribution: Newton's method on the logarithm of the distribution function, which is
// concave, from a start that is good everywhere.
Value ndtri(Value p) {
  Value upper = greater(p, 0.5);
  Value q = select(upper, 1.0 - p, p);
  Value valid = logical_and(greater(q, 0), less_equal(q, 0.5));
  q = select(valid, q, 0.25);
  Value log_q = log(q);
  Value r = sqrt(log_q * -2.0);
  Value tail = log(r * std::sqrt(2 * std::numbers::pi)) / r - r;
  Value x = select(less(q, 0.02), tail, erf_inv(2.0 * q - 1.0) * std::numbers::sqrt2);
  for (int i = 0; i < 4; ++i) {
    Value log_cdf = log_ndtr(x);
    Value log_pdf = x * x * -0.5 - std::log(std::sqrt(2 * std::numbers::pi));
    x = x - (log_cdf - log_q) * exponential(log_cdf - log_pdf);
  }
  x = select(upper, negate(x), x);
  x = select(valid, x, std::nan(""));
  x = select(equal(p, 0), -kInf, x);
  return select(equal(p, 1), kInf, x);
}

Results frexp(Op& op) {
  const ElementType t = op.element("self");
  Builder& b = op.builder();
  // Reduced floats are exact in f32.
  Value x = op.tensor("self", opmath_type(t));
  Value magnitude = abs(x);
  Value ordinary = logical_and(is_finite(x), greater(magnitude, 0));
  Value mantissa, exponent;
  if (x.element() == ElementType::kF64 && op.target().is_tpu()) {
    // No bitcast of f64 there: from the logarithm, corrected by one.
    Value safe = select(ordinary, magnitude, 1.0);
    Value e = floor(log(safe) / std::numbers::ln2) + 1.0;
    Value half = floor(e * 0.5);  // 2^e itself may overflow
    auto power_of_two = [&](Value v) { return power(constant_like(v, 2), v); };
    Value m = safe * power_of_two(negate(half)) * power_of_two(half - e);
    Value high = greater_equal(m, 1), low = less(m, 0.5);
    m = select(high, m * 0.5, select(low, m * 2.0, m));
    e = select(high, e + 1.0, select(low, e - 1.0, e));
    mantissa = select(less(x, 0), negate(m), m);
    exponent = convert(e, ElementType::kS32);
  } else {
    const bool wide = x.element() == ElementType::kF64;
    const ElementType bits_type = wide ? ElementType::kS64 : ElementType::kS32;
    const int64_t fraction_bits = wide ? 52 : 23, bias = wide ? 1022 : 126, exponent_mask = wide ? 0x7FF : 0xFF;
    // Subnormals are scaled up first.
    Value small = less(magnitude, stablehlo::smallest_normal(x.element()));
    Value scaled = select(small, x * std::ldexp(1.0, 64), x);
    Value bits = bitcast_convert(scaled, bits_type);
    auto number = [&](int64_t v) { return constant(b, bits_type, v, x.dims()); };
    Value e = logical_and(shift_right_logical(bits, number(fraction_bits)), number(exponent_mask)) - number(bias);
    Value kept = logical_and(bits, number(~(exponent_mask << fraction_bits)));
    mantissa = bitcast_convert(logical_or(kept, number(bias << fraction_bits)), x.element());
    exponent = convert(select(small, e - number(64), e), ElementType::kS32);
  }
  return {select(ordinary, mantissa, x), select(ordinary, exponent, constant_like(exponent, 0))};
}

}  // namespace

void register_pointwise_unary(Registry& r) {
  r.add("abs", absolute);
  r.add("mvlgamma", mvlgamma);
  r.add("neg", negative);
  r.add("exp", float_unary<stablehlo::exponential>);
  r.add("exp2", exp2);
  r.add("expm1", float_unary<stablehlo::exponential_minus_one>);
  r.add("log", float_unary<stablehlo::log>);
  r.add("log2", scaled_log<false>);
  r.add("log10", scaled_log<true>);
  r.add("log1p", float_unary<stablehlo::log_plus_one>);
  r.add("sin", float_unary<stablehlo::sine>);
  r.add("cos", float_unary<stablehlo::cosine>);
  r.add("tan", float_unary<stablehlo::tan>);
  r.add("asin", float_unary<stablehlo::asin>);
  r.add("acos", float_unary<stablehlo::acos>);
  r.add("atan", float_unary<stablehlo::atan>);
  r.add("sinh", float_unary<stablehlo::sinh>);
  r.add("cosh", float_unary<stablehlo::cosh>);
  r.add("tanh", float_unary<stablehlo::tanh>);
  r.add("asinh", float_unary<stablehlo::asinh>);
  r.add("acosh", float_unary<stablehlo::acosh>);
  r.add("atanh", float_unary<stablehlo::atanh>);
  r.add("sqrt", float_unary<stablehlo::sqrt>);
  r.add("rsqrt", float_unary<reciprocal_sqrt>);
  r.add("reciprocal", float_unary<reciprocal>);
  r.add("sigmoid", float_unary<stablehlo::logistic>);
  r.add("erf", real_unary<stablehlo::erf>);
  r.add("erfc", real_unary<stablehlo::erfc>);
  r.add("erfinv", float_unary<erfinv>);
  r.add("lgamma", lgamma);
  r.add("digamma", digamma);
  r.add("polygamma", polygamma);
  r.add("logit", logit);
  r.add("ceil", rounding<stablehlo::ceil>);
  r.add("floor", rounding<stablehlo::floor>);
  r.add("round", rounding<stablehlo::round_nearest_even>);
  r.add("round.decimals", round_decimals);
  r.add("trunc", rounding<truncate>);
  r.add("frac", frac);
  r.add("sign", sign_of_real);
  r.add("sgn", sign);
  r.add("signbit", signbit);
  r.add("isnan", isnan);
  r.add("isinf", isinf);
  r.add("isposinf", is_signed_inf<false>);
  r.add("isneginf", is_signed_inf<true>);
  r.add("bitwise_not", bitwise_not);
  r.add("logical_not", logical_not_);
  r.add("angle", angle);
  r.add("_conj_physical", conj_physical).like("self");
  r.add("conj_physical_", conj_physical);
  r.add("nan_to_num", nan_to_num);
  r.add("sinc", float_unary<sinc>);
  r.add("special_entr", float_unary<entropy>);
  r.add("special_ndtri", precise_unary<ndtri>);
  r.add("special_log_ndtr", precise_unary<log_ndtr>);
  r.add("special_erfcx", precise_unary<erfcx>);
  r.add("frexp.Tensor", frexp);
  register_special_unary(r);
}

}  // namespace torch_tpu::lowering
