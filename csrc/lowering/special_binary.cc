// Special functions of two variables.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

struct Pair {
  Value x, y;
};

Pair float_operands(const Op& op) {
  const ElementType t = opmath_type(common_float_type(op, {"self", "other"}));
  Pair p{operand(op, "self", t), operand(op, "other", t)};
  broadcast_all({&p.x, &p.y});
  return p;
}
Pair special_operands(const Op& op) {
  const ElementType t = special_type(op.target(), common_float_type(op, {"self", "other"}));
  Pair p{operand(op, "self", t), operand(op, "other", t)};
  broadcast_all({&p.x, &p.y});
  return p;
}

Value xlogy(Op& op) {
  auto [x, y] = float_operands(op);
  return select(is_nan(y), y, select(equal(x, 0), constant_like(x, 0), x * log(y)));
}

Value xlog1py(Op& op) {
  auto [x, y] = float_operands(op);
  return select(is_nan(y), y, select(equal(x, 0), constant_like(x, 0), x * log_plus_one(y)));
}

// log(b^x + b^y), from the greater of the two.
template <bool kBase2>
Value logaddexp(Op& op) {
  auto [x, y] = float_operands(op);
  const double log_base = kBase2 ? std::numbers::ln2 : 1;
  if (is_complex(x.element())) {
    Value scale = constant_like(x, log_base);
    Value swap = less(real(x), real(y));
    Value high = select(swap, y, x), low = select(swap, x, y);
    Value result = high + log_plus_one(exponential((low - high) * scale)) / scale;
    Value same_infinity = logical_and(stablehlo::equal(x, y), logical_or(is_inf(real(x)), is_inf(imag(x))));
    return select(same_infinity, x, result);
  }
  Value high = maximum(x, y);
  Value result = high + log_plus_one(exponential(abs(x - y) * -log_base)) * (1 / log_base);
  return select(logical_and(equal(x, y), is_inf(x)), x, result);
}

// Euclid's algorithm on all elements at once.
Value greatest_common_divisor(const Target& target, Value x, Value y) {
  auto state = while_loop(
      std::vector<Value>{abs(x), abs(y)}, [](std::span<const Value> v) { return any(not_equal(v[0], 0)); },
      [&](std::span<const Value> v) {
        Value done = equal(v[0], 0);
        Value r = divide_integers(target, v[1], select(done, 1.0, v[0])).remainder;
        return std::vector<Value>{select(done, v[0], r), select(done, v[1], v[0])};
      });
  return state[1];
}

Pair integer_operands(const Op& op) {
  const ElementType t = common_type(op, {"self", "other"});
  if (!is_integer(t)) throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(t) + "'");
  Pair p{operand(op, "self", t), operand(op, "other", t)};
  broadcast_all({&p.x, &p.y});
  return p;
}

Value gcd(Op& op) {
  auto [x, y] = integer_operands(op);
  return greatest_common_divisor(op.target(), x, y);
}

Value lcm(Op& op) {
  auto [x, y] = integer_operands(op);
  Value g = greatest_common_divisor(op.target(), x, y);
  Value zero = equal(g, 0);
  Value quotient = divide_integers(op.target(), x, select(zero, 1.0, g)).quotient;
  return select(zero, g, abs(quotient * y));
}

Value zeta(Op& op) {
  auto [x, q] = special_operands(op);
  return hurwitz_zeta(x, q);
}

// --- incomplete gamma functions

// Above this shape parameter the uniform expansion is exact to the type, and the series would take thousands of terms.
constexpr double kLargeShape = 1e4;

// log1p(d) - d
Value log1p_minus(Value d) {
  Value small = less(abs(d), 0.01);
  Value s = select(small, d, 0.0);
  Value series = constant_like(s, 0.0);
  for (int k = 10; k >= 2; --k) series = series * s + (k % 2 ? 1.0 : -1.0) / k;
  return select(small, series * s * s, log_plus_one(select(small, 1.0, d)) - d);
}

// log Gamma(a) for a in (0, 20], as exact as its largest term: what exponents need. The general function takes seconds
// to compile for TPUs in float64.
Value log_gamma_moderate(Value a) {
  // Stirling's series eight steps up, less the logarithm of the steps.
  Value steps = a, z = a + 1.0;
  for (int k = 1; k < 8; ++k, z = z + 1.0) steps = steps * z;
  constexpr double kSeries[] = {1.0 / 156, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  Value inverse = 1.0 / z, square = inverse * inverse, series = constant_like(a, -3617.0 / 122400);
  for (const double c : kSeries) series = series * square + c;
  const double half_log_two_pi = 0.5 * std::log(2 * std::numbers::pi);
  return (z - 0.5) * log(z) - z + half_log_two_pi + series * inverse - log(steps);
}

// zeta(n) - 1, by Euler and Maclaurin.
double zeta_minus_one(int n) {
  constexpr double kTerms = 200;
  double sum = 0;
  for (double k = kTerms - 1; k >= 2; --k) sum += std::pow(k, -n);
  const double last = std::pow(kTerms, -n);
  return sum + last * (kTerms / (n - 1) + 0.5 + n / (12 * kTerms));
}

// log Gamma(1 + a) for a in (0, 1.1], exact where it is near 0, too.
Value log_gamma_of_one_plus(Value a) {
  constexpr int kTerms = 56;
  Value series = constant_like(a, 0.0);
  for (int n = kTerms; n >= 2; --n) series = series * a + (n % 2 ? -1.0 : 1.0) * zeta_minus_one(n) / n;
  return (series * a + (1 - std::numbers::egamma)) * a - log_plus_one(a);
}

// What the forms share.
struct GammaTerms {
  Value log_x;
  Value deviation;  // log1p(d) - d for d = (x - a) / a
  Value stirling;   // log Gamma(a) less Stirling's formula, for great a
  Value peak;       // x^a e^-x / Gamma(a) for great a, through the deviation: the powers would lose all digits
  Value density;    // x^a e^-x / Gamma(a)
};

GammaTerms gamma_terms(Value a, Value x) {
  GammaTerms g;
  g.log_x = log(x);
  g.deviation = log1p_minus((x - a) / a);
  Value inverse = 1.0 / a;
  g.stirling = inverse * (1.0 / 12 - inverse * inverse * (1.0 / 360 - inverse * inverse * (1.0 / 1260)));
  g.peak = exponential(a * g.deviation - g.stirling) * sqrt(a) * std::sqrt(1 / (2 * std::numbers::pi));
  Value large = greater(a, 20);
  Value moderate = select(large, 1.0, a);
  g.density = select(large, g.peak, exponential(a * g.log_x - x - log_gamma_moderate(moderate)));
  return g;
}

// P(a, x) a / density by its power series: good for x below a + 1.
Value lower_series(Value a, Value x) {
  const double eps = stablehlo::epsilon(x.element()) / 4;
  Value one = constant_like(x, 1.0);
  auto state = while_loop(
      std::vector<Value>{one, one, constant_like(x, 0.0), a, x},  // sum, term, n, a, x
      [&](std::span<const Value> v) { return any(logical_and(greater(v[1], v[0] * eps), less(v[2], 3000))); },
      [](std::span<const Value> v) {
        Value n = v[2] + 1.0;
        Value term = v[1] * v[4] / (v[3] + n);
        return std::vector<Value>{v[0] + term, term, n, v[3], v[4]};
      });
  return state[0];
}

// Temme's uniform expansion of Q (or P) for great a, two orders.
Value uniform_expansion(Value a, Value x, const GammaTerms& terms, bool upper) {
  Value eta = sqrt(terms.deviation * -2.0);
  eta = select(stablehlo::less(x, a), negate(eta), eta);
  Value c0 = ((eta * (1.0 / 2835) + 1.0 / 864) * eta - 2.0 / 135) * eta;
  c0 = (c0 + 1.0 / 12) * eta - 1.0 / 3;
  Value c1 = (eta * (1.0 / 378) - 1.0 / 288) * eta - 1.0 / 540;
  // Far from the peak the exponential is 0 and the polynomials may overflow.
  Value weight = terms.peak / a * (terms.stirling * (terms.stirling * 0.5 + 1.0) + 1.0);
  Value correction = select(equal(weight, 0), 0.0, weight * (c0 + c1 / a));
  Value argument = eta * sqrt(a * 0.5);
  return upper ? erfc(argument) * 0.5 + correction : erfc(negate(argument)) * 0.5 - correction;
}

// Q(a, x) / density by Lentz's continued fraction: good for x above a + 1.
Value upper_fraction(Value a, Value x) {
  const double eps = stablehlo::epsilon(x.element());
  Value b0 = x - a + 1.0;
  Value d0 = 1.0 / b0;
  Value far = constant_like(x, 1e30);
  // h, c, d, b, n, a, and the last factor's distance from 1
  auto state = while_loop(
      std::vector<Value>{d0, far, d0, b0, constant_like(x, 0.0), a, constant_like(x, 1.0)},
      [&](std::span<const Value> v) { return any(logical_and(greater(abs(v[6]), eps), less(v[4], 3000))); },
      [](std::span<const Value> v) {
        Value n = v[4] + 1.0;
        Value an = negate(n) * (n - v[5]);
        Value b = v[3] + 2.0;
        auto nonzero = [](Value t) { return select(less(abs(t), 1e-30), 1e-30, t); };
        Value d = 1.0 / nonzero(an * v[2] + b);
        Value c = nonzero(b + an / v[1]);
        Value delta = c * d;
        return std::vector<Value>{v[0] * delta, c, d, b, n, v[5], delta - 1.0};
      });
  return state[0];
}

// Q for small a and x, where 1 - P would cancel: Gamma(a) Q = Gamma(a) - x^a sum (-x)^n / (n! (a + n)) in a form
// without the poles of both terms.
Value upper_small(Value a, Value x, Value log_x) {
  Value zero = constant_like(x, 0.0);
  auto state = while_loop(
      std::vector<Value>{zero, constant_like(x, 1.0), zero, a, x},  // sum, factor, n, a, x
      [](std::span<const Value> v) { return any(less(v[2], 24)); },
      [](std::span<const Value> v) {
        Value n = v[2] + 1.0, factor = negate(v[1] * v[4] / n);
        return std::vector<Value>{v[0] + factor / (v[3] + n), factor, n, v[3], v[4]};
      });
  Value power = exponential_minus_one(a * log_x - log_gamma_of_one_plus(a));  // x^a / Gamma(a + 1) - 1
  return negate(power) - a * (power + 1.0) * state[0];
}

template <bool kUpper>
Value incomplete_gamma(Op& op) {
  auto [a, x] = special_operands(op);
  Value ordinary = logical_and(logical_and(greater(a, 0), greater(x, 0)), logical_and(is_finite(a), is_finite(x)));
  Value safe_a = select(ordinary, a, 1.0), safe_x = select(ordinary, x, 1.0);
  const GammaTerms terms = gamma_terms(safe_a, safe_x);
  Value great = greater(safe_a, kLargeShape);
  Value uniform = uniform_expansion(safe_a, safe_x, terms, kUpper);
  // Each lane takes one branch; the others run on values that converge at once.
  Value loop_a = select(great, 1.0, safe_a), loop_x = select(great, 1.0, safe_x);
  Value fraction = logical_and(greater(loop_x, 1.1), stablehlo::greater(loop_x, loop_a));
  Value p = terms.density / safe_a * lower_series(select(fraction, 1.0, loop_a), select(fraction, 1.0, loop_x));
  Value q = terms.density * upper_fraction(select(fraction, loop_a, 1.0), select(fraction, loop_x, 2.0));
  Value result;
  if (kUpper) {
    Value tiny = logical_and(less_equal(loop_x, 1.1), less(loop_a, 1.1));
    Value small = upper_small(select(tiny, loop_a, 1.0), select(tiny, loop_x, 1.0), terms.log_x);
    result = select(fraction, q, select(tiny, small, 1.0 - p));
  } else {
    result = select(fraction, 1.0 - q, p);
  }
  result = select(great, uniform, result);
  const double at_zero = kUpper ? 1 : 0;
  const double at_infinity = 1 - at_zero;
  auto fill = [&](Value where, double value) { result = select(where, value, result); };
  fill(logical_or(is_nan(a), is_nan(x)), kNaN);
  fill(equal(x, 0), at_zero);
  fill(logical_and(equal(a, 0), greater(x, 0)), at_infinity);
  fill(equal(x, kInf), at_infinity);
  fill(equal(a, kInf), at_zero);
  fill(logical_and(equal(a, kInf), equal(x, kInf)), kNaN);
  fill(logical_and(equal(a, 0), equal(x, 0)), kNaN);
  return select(logical_or(less(x, 0), less(a, 0)), kNaN, result);
}

}  // namespace

void register_special_binary(Registry& r) {
  for (const char* form : {".Tensor", ".Scalar_Other", ".Scalar_Self"}) r.add(std::string("xlogy") + form, xlogy);
  for (const char* form : {"", ".other_scalar", ".self_scalar"}) {
    r.add(std::string("special_xlog1py") + form, xlog1py);
    r.add(std::string("special_zeta") + form, zeta);
  }
  r.add("logaddexp", logaddexp<false>);
  r.add("logaddexp2", logaddexp<true>);
  r.add("gcd", gcd);
  r.add("lcm", lcm);
  constexpr const char* kSlowToCompile = "float64 is software on TPUs: there the first call compiles for 10 to 30 s";
  r.add("igamma", incomplete_gamma<false>).note(kSlowToCompile);
  r.add("igammac", incomplete_gamma<true>).note(kSlowToCompile);
}

}  // namespace torch_tpu::lowering
