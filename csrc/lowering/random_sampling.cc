// Distributions that are sampled by rejection or inversion over all lanes at once (Poisson, binomial, gamma,
// Dirichlet), their reparametrized gradients, and multinomial.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/random_helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value number(Value like, double v) { return constant_like(like, v); }

// What counts are drawn in. TPUs have f64 only in software, which takes half a minute to compile here.
ElementType counting_type(const Op& op) { return op.target().is_tpu() ? kF32 : kF64; }

// x log(x / mean) + mean - x for x >= 0, without cancellation near the mean (Loader 2000).
Value deviance(Value x, Value mean) {
  Value v = (x - mean) / (x + mean), square = v * v;
  Value series = number(x, 1.0 / 15);
  for (const int odd : {13, 11, 9, 7, 5, 3}) series = series * square + number(x, 1.0 / odd);
  Value near = (x - mean) * v + number(x, 2) * x * v * square * series;
  Value none = equal(x, number(x, 0));
  Value far = x * stablehlo::log(select(none, mean, x) / mean) + mean - x;
  return select(less(abs(v), number(x, 0.1)), near, far);
}

// log(k!) without its Stirling approximation k log(k) - k + log(2 pi k) / 2, for k = 0, 1, ...; 0 for 0.
Value stirling_error(Value k) {
  constexpr int kFirst = 10;  // where the series is exact
  Value large = maximum(k, number(k, kFirst)), inverse = number(k, 1) / large, square = inverse * inverse;
  Value series = number(k, -1.0 / 1680);
  for (const double c : {1.0 / 1260, -1.0 / 360, 1.0 / 12}) series = series * square + number(k, c);
  Value error = series * inverse;
  for (int n = 0; n < kFirst; ++n) {
    const double exact =
        n == 0 ? 0 : std::lgamma(n + 1.0) - (n * std::log(n) - n + std::log(2 * std::numbers::pi * n) / 2);
    error = select(equal(k, number(k, n)), number(k, exact), error);
  }
  return error;
}

// Logarithm of the Poisson probability of k = 0, 1, ..., exact to the type's last digits also where log(k!) is large.
Value log_poisson(Value k, Value mean) {
  Value some = maximum(k * number(k, 2 * std::numbers::pi), number(k, 1));
  return negate(deviance(k, mean) + stirling_error(k) + number(k, 0.5) * stablehlo::log(some));
}

Value uniform_of(RandomStream& stream, ElementType compute, const Dims& dims) {
  return half_open_unit(stream.bits(bits_type(compute), dims), significand_bits(compute));
}

// Counts k with u > cdf(k) by summing probabilities: p0 = P(0), ratio(k) = P(k) / P(k - 1) for k = 1, 2, ... Lanes with
// u < 0 are not of interest.
Value invert_cdf(Value u, Value p0, const std::function<Value(Value)>& ratio) {
  if (u.numel() == 0) return u;
  constexpr double kMaxCount = 200;  // means are below 10 here
  const Value k0 = constant(u.builder(), u.element(), 0.0);
  const Value init[4] = {k0, p0, p0, number(u, 0)};
  return while_loop(
      init,
      [&](std::span<const Value> s) {
        Value open = reduce_or(greater(u, s[2]), all_dims(u.rank()));
        return logical_and(open, less(s[0], number(s[0], kMaxCount)));
      },
      [&](std::span<const Value> s) {
        Value k = s[0] + number(s[0], 1);
        Value p = s[1] * ratio(broadcast_to(k, u.dims()));
        Value count = select(greater(u, s[2]), s[3] + number(s[3], 1), s[3]);
        return std::vector<Value>{k, p, s[2] + p, count};
      })[3];
}

// Transformed rejection with squeeze for large means (Hoermann 1993), inversion for the others.
Value poisson(Op& op) {
  const ElementType compute = counting_type(op);
  Value rate = op.tensor("self", compute);
  const Dims& dims = rate.dims();
  Value valid = logical_and(greater_equal(rate, number(rate, 0)), is_finite(rate));
  Value large = logical_and(valid, greater_equal(rate, number(rate, 10)));
  Value small = logical_and(valid, less(rate, number(rate, 10)));

  Value safe = select(large, rate, number(rate, 10));
  Value b = number(rate, 0.931) + number(rate, 2.53) * stablehlo::sqrt(safe);
  Value a = number(rate, -0.059) + number(rate, 0.02483) * b;
  Value log_inverse_alpha = stablehlo::log(number(rate, 1.1239) + number(rate, 1.1328) / (b - number(rate, 3.4)));
  Value vr = number(rate, 0.9277) - number(rate, 3.6224) / (b - number(rate, 2));
  auto propose = [&](RandomStream& stream) {
    Value u = uniform_of(stream, compute, dims) - number(rate, 0.5);
    Value v = positive_unit(stream.bits(bits_type(compute), dims));
    Value us = number(rate, 0.5) - abs(u);
    Value k = stablehlo::floor((number(rate, 2) * a / us + b) * u + safe + number(rate, 0.43));
    Value quick = logical_and(greater_equal(us, number(rate, 0.07)), less_equal(v, vr));
    Value no = logical_or(less(k, number(rate, 0)), logical_and(less(us, number(rate, 0.013)), greater(v, us)));
    Value left = stablehlo::log(v) + log_inverse_alpha - stablehlo::log(a / (us * us) + b);
    Value right = log_poisson(maximum(k, number(rate, 0)), safe);
    Value slow = logical_and(logical_not(no), less_equal(left, right));
    return std::pair{logical_or(quick, slow), k};
  };
  Value by_rejection = rejection_sample(op, large, number(rate, 0), propose);

  Value low = select(small, rate, number(rate, 0));
  Value u = select(small, half_open_unit(draw_bits(op, bits_type(compute), dims), significand_bits(compute)),
                   number(rate, -1));
  Value by_inversion = invert_cdf(u, exponential(negate(low)), [&](Value k) { return low / k; });

  Value out = select(large, by_rejection, by_inversion);
  // Rates that CPU rejects, and infinity.
  Value other = select(equal(rate, number(rate, kInfinity)), rate, quiet_nan(op.builder(), compute, dims));
  return convert(select(valid, out, other), op.element("self"));
}

Value binomial(Op& op) {
  const ElementType compute = counting_type(op);
  Value count = op.tensor("count", compute), prob = op.tensor("prob", compute);
  broadcast_all({&count, &prob});
  const Dims& dims = count.dims();
  Value zero = number(count, 0), one = number(count, 1), half = number(count, 0.5);
  Value valid = logical_and(logical_and(greater_equal(count, zero), is_finite(count)),
                            logical_and(greater_equal(prob, zero), less_equal(prob, one)));
  // The smaller of success and failure is counted.
  Value flipped = greater(prob, half);
  Value p = select(flipped, one - prob, prob);
  Value n = select(valid, count, zero);
  p = select(valid, p, zero);
  Value large = greater_equal(n * p, number(count, 10));

  // Transformed rejection (BTRS, Hoermann 1993).
  Value sn = select(large, n, number(count, 40)), sp = select(large, p, half);
  Value sq = one - sp;
  Value deviation = stablehlo::sqrt(sn * sp * sq);
  Value b = number(count, 1.15) + number(count, 2.53) * deviation;
  Value a = number(count, -0.0873) + number(count, 0.0248) * b + number(count, 0.01) * sp;
  Value c = sn * sp + half;
  Value vr = number(count, 0.92) - number(count, 4.2) / b;
  Value alpha = (number(count, 2.83) + number(count, 5.1) / b) * deviation;
  Value mode = stablehlo::floor((sn + one) * sp);
  // Of k successes, but for a constant.
  auto log_probability = [&](Value k) { return log_poisson(k, sn * sp) + log_poisson(sn - k, sn * sq); };
  Value at_mode = log_probability(mode);
  auto propose = [&](RandomStream& stream) {
    Value u = uniform_of(stream, compute, dims) - half;
    Value v = positive_unit(stream.bits(bits_type(compute), dims));
    Value us = half - abs(u);
    Value k = stablehlo::floor((number(count, 2) * a / us + b) * u + c);
    Value inside = logical_and(greater_equal(k, zero), less_equal(k, sn));
    Value quick = logical_and(greater_equal(us, number(count, 0.07)), less_equal(v, vr));
    Value kept = select(inside, k, zero);
    Value left = stablehlo::log(v * alpha / (a / (us * us) + b));
    Value right = log_probability(kept) - at_mode;
    return std::pair{logical_and(inside, logical_or(quick, less_equal(left, right))), kept};
  };
  Value by_rejection = rejection_sample(op, large, zero, propose);

  Value in = select(large, zero, n), ip = select(large, zero, p);
  Value u = select(large, number(count, -1),
                   half_open_unit(draw_bits(op, bits_type(compute), dims), significand_bits(compute)));
  Value odds = ip / (one - ip);
  Value by_inversion =
      invert_cdf(u, exponential(in * log_plus_one(negate(ip))), [&](Value k) { return (in - k + one) / k * odds; });
  by_inversion = minimum(by_inversion, in);

  Value out = select(large, by_rejection, by_inversion);
  out = select(flipped, n - out, out);
  return convert(select(valid, out, quiet_nan(op.builder(), compute, dims)), op.element("count"));
}

struct GammaSample {
  Value magnitude;  // a gamma variate of shape alpha, or alpha + 1 where alpha < 1
  Value log_boost;  // log of the factor that leads from alpha + 1 to alpha; 0 elsewhere
};

// Marsaglia and Tsang 2000.
GammaSample sample_gamma(const Op& op, Value alpha) {
  const ElementType given = op.element("self");
  if (!is_floating(given)) throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(given) + "'");
  const ElementType compute = alpha.element();
  const Dims& dims = alpha.dims();
  Value zero = number(alpha, 0), one = number(alpha, 1);
  Value small = less(alpha, one);
  Value valid = logical_and(greater_equal(alpha, zero), is_finite(alpha));
  Value shape = select(valid, select(small, alpha + one, alpha), one);
  Value d = shape - number(alpha, 1.0 / 3);
  Value c = rsqrt(number(alpha, 9) * d);
  const int64_t draws = normal_draws(alpha.numel());
  auto propose = [&](RandomStream& stream) {
    Value x = normal_from_bits(stream.bits(bits_type(compute), {draws}), dims);
    Value u = positive_unit(stream.bits(bits_type(compute), dims));
    Value root = one + c * x;
    Value positive = greater(root, zero);
    Value v = select(positive, root * root * root, one);
    Value bound = number(alpha, 0.5) * x * x + d - d * v + d * stablehlo::log(v);
    return std::pair{logical_and(positive, less(stablehlo::log(u), bound)), d * v};
  };
  Value magnitude = rejection_sample(op, valid, d, propose);
  // NaN, negative and infinite shapes.
  Value other = select(equal(alpha, number(alpha, kInfinity)), alpha, quiet_nan(op.builder(), compute, dims));
  magnitude = select(valid, magnitude, other);
  Value boost_log = stablehlo::log(positive_unit(draw_bits(op, bits_type(compute), dims))) / alpha;
  Value none = equal(alpha, zero);
  boost_log = select(none, number(alpha, -kInfinity), boost_log);
  return {magnitude, select(small, boost_log, zero)};
}

Value standard_gamma(Op& op) {
  const ElementType type = op.element("self");
  GammaSample sample = sample_gamma(op, op.tensor("self", sampling_type(type)));
  Value x = sample.magnitude * exponential(sample.log_boost);
  return convert(maximum(x, number(x, smallest_normal(type))), type);
}

Value sample_dirichlet(Op& op) {
  const ElementType type = op.element("self");
  GammaSample sample = sample_gamma(op, op.tensor("self", sampling_type(type)));
  // Normalized through logarithms: small shapes underflow otherwise.
  Value x = stablehlo::log(sample.magnitude) + sample.log_boost;
  if (x.rank() == 0) return constant(op.builder(), type, 1.0);
  const Dims last = {x.rank() - 1};
  Value e = exponential(x - like(x, keep_dims(reduce_max(x, last), x.dims(), last)));
  Value y = e / like(x, keep_dims(reduce_sum(e, last), x.dims(), last));
  y = convert(y, type);
  Value low = constant(op.builder(), type, smallest_normal(type));
  Value high = constant(op.builder(), type, 1 - epsilon(type) / 2);
  return stablehlo::clamp(low, y, high);
}

// --- gradients: d sample / d parameter = -(d cdf / d parameter) / density, from series with positive terms

ElementType gradient_type(const Op& op, ElementType type) { return op.target().is_cpu() ? kF64 : sampling_type(type); }

// Sums a power series and its derivative with respect to a parameter until no lane's terms matter. advance(n) gives the
// ratio of term n to term n - 1 and the logarithmic derivative of that ratio.
std::pair<Value, Value> sum_series(Value x, Value active,
                                   const std::function<std::pair<Value, Value>(Value)>& advance) {
  Value one = number(x, 1), zero = number(x, 0);
  if (x.numel() == 0) return {one, zero};
  constexpr double kMaxTerms = 5000;
  const double tolerance = epsilon(x.element()) / 2;
  const Value n0 = constant(x.builder(), x.element(), 0.0);
  // n, term, derivative of the term's logarithm, sum, derivative of the sum
  const Value init[5] = {n0, one, zero, one, zero};
  auto sums = while_loop(
      init,
      [&](std::span<const Value> s) {
        Value term = abs(s[1]) * (one + abs(s[2]));
        Value open = logical_and(active, greater(term, number(x, tolerance) * s[3]));
        return logical_and(reduce_or(open, all_dims(x.rank())), less(s[0], number(s[0], kMaxTerms)));
      },
      [&](std::span<const Value> s) {
        Value n = s[0] + number(s[0], 1);
        auto [ratio, slope] = advance(broadcast_to(n, x.dims()));
        Value term = s[1] * ratio, log_slope = s[2] + slope;
        return std::vector<Value>{n, term, log_slope, s[3] + term, s[4] + term * log_slope};
      });
  return {sums[3], sums[4]};
}

// Continued fraction of the upper incomplete gamma function (modified Lentz in the even form), with its derivative in
// a.
std::pair<Value, Value> upper_gamma_fraction(Value a, Value x, Value active) {
  Value one = number(x, 1), zero = number(x, 0);
  if (x.numel() == 0) return {one, zero};
  constexpr double kMaxTerms = 2000;
  const double tolerance = epsilon(x.element()) * 2;
  // Q = x^a e^-x / Gamma(a) * h, h = 1/(x+1-a- 1(1-a)/(x+3-a- 2(2-a)/(x+5-a- ...))). State: i, b, c, d, h and the
  // derivatives of c, d, h, then whether h moved. Derivatives of b are -1 throughout.
  Value b0 = x + one - a;
  Value d0 = one / b0;
  Value dd0 = d0 * d0;
  Value tiny = number(x, x.element() == kF64 ? 1e-300 : 1e-30);
  const Value i0 = constant(x.builder(), x.element(), 0.0);
  const Value init[9] = {i0, b0, one / tiny, d0, d0, zero, dd0, dd0, active};
  auto s = while_loop(
      init,
      [&](std::span<const Value> s) {
        return logical_and(reduce_or(s[8], all_dims(x.rank())), less(s[0], number(s[0], kMaxTerms)));
      },
      [&](std::span<const Value> s) {
        Value i1 = s[0] + number(s[0], 1), i = broadcast_to(i1, x.dims());
        Value an = negate(i * (i - a));  // derivative in a: i
        Value b = s[1] + number(x, 2);   // derivative: -1
        Value c = b + an / s[2];
        Value dc = number(x, -1) + (i - an * s[5] / s[2]) / s[2];
        Value denominator = b + an * s[3];
        Value ddenominator = number(x, -1) + i * s[3] + an * s[6];
        Value d = one / denominator, dd = negate(ddenominator * d * d);
        Value delta = c * d, ddelta = dc * d + c * dd;
        Value h = s[4] * delta, dh = s[7] * delta + s[4] * ddelta;
        Value moves = logical_or(greater(abs(delta - one), number(x, tolerance)),
                                 greater(abs(dh - s[7]), number(x, tolerance) * abs(dh)));
        return std::vector<Value>{i1, b, c, d, h, dc, dd, dh, logical_and(s[8], moves)};
      });
  return {s[4], s[7]};
}

Value standard_gamma_grad(Op& op) {
  const ElementType compute = gradient_type(op, op.element("self"));
  Value alpha = op.tensor("self", compute), x = op.tensor("output", compute);
  broadcast_all({&alpha, &x});
  Value one = number(x, 1), zero = number(x, 0);
  Value huge = greater(alpha, number(x, 1e4));
  Value upper = logical_and(logical_not(huge), logical_and(greater(x, one), greater(x, alpha)));
  Value lower = logical_and(logical_not(huge), logical_not(upper));

  // P(a, x) = x^a e^-x / Gamma(a + 1) * sum x^n / ((a+1)...(a+n))
  Value al = select(lower, alpha, one), xl = select(lower, x, one);
  auto [sum, slope] = sum_series(xl, lower, [&](Value n) {
    Value r = al + n;
    return std::pair{xl / r, negate(one / r)};
  });
  Value log_x = stablehlo::log(xl);
  Value from_series = negate((slope + sum * (log_x - digamma(al + one))) * xl / al);

  Value au = select(upper, alpha, one), xu = select(upper, x, number(x, 2));
  auto [h, dh] = upper_gamma_fraction(au, xu, upper);
  Value from_fraction = xu * (dh + h * (stablehlo::log(xu) - digamma(au)));

  // Wilson and Hilferty: x = a (1 - 1/(9a) + z / (3 sqrt a))^3 at fixed z.
  Value ah = select(huge, alpha, one);
  Value ninth = one / (number(x, 9) * ah);
  Value root = cbrt(select(huge, x, one) / ah);
  Value from_normal =
      root * root * root + number(x, 3) * ah * root * root * (ninth / ah - (root - one + ninth) / (number(x, 2) * ah));
  // As x goes to 0, x^alpha is proportional to the cdf, and the gradient to x log x.
  Value out = select(huge, from_normal, select(upper, from_fraction, from_series));
  out = select(equal(x, zero), zero, out);
  return convert(out, op.element("self"));
}

// d x / d alpha of x ~ Beta(alpha, total - alpha), over (1 - x): the part that Dirichlet's gradient is made of.
Value dirichlet_grad(Op& op) {
  const ElementType compute = gradient_type(op, op.element("x"));
  Value x = op.tensor("x", compute), a = op.tensor("alpha", compute), total = op.tensor("total", compute);
  broadcast_all({&x, &a, &total});
  Value one = number(x, 1);
  Value b = total - a;
  // I_x(a, b) = x^a (1-x)^b / (a B(a, b)) * sum_n prod_k (a+b+k-1)/(a+k) x^k, best below the mean; above it, the same
  // for I_{1-x}(b, a) = 1 - I_x(a, b).
  Value below = less_equal(x, (a + one) / (total + number(x, 2)));
  Value y = select(below, x, one - x), p = select(below, a, b);
  Value everywhere = constant(op.builder(), kPred, true, x.dims());
  auto [sum, slope] = sum_series(y, everywhere, [&](Value n) {
    Value top = total + n - one, bottom = p + n;
    // Only the first parameter of the function stands in the denominators.
    Value change = one / top - select(below, one / bottom, number(x, 0));
    return std::pair{y * top / bottom, change};
  });
  Value log_x = stablehlo::log(x), psi = digamma(total) - digamma(a);
  Value prefix_slope = select(below, log_x - one / a + psi, log_x + psi);
  Value value = (slope + sum * prefix_slope) * x / p;
  return convert(select(below, negate(value), value), op.element("x"));
}

// --- multinomial

Value multinomial(Op& op) {
  const ElementType compute = sampling_type(op.element("self"));
  const Dims given = op.dims("self");
  const int64_t k = op.integer("num_samples"), n = given.back(), m = given.size() == 2 ? given[0] : 1;
  const bool replacement = op.has("replacement") && op.boolean("replacement");
  Dims out_dims = given;
  out_dims.back() = k;
  if (m == 0 || k == 0) return constant(op.builder(), kS64, 0, out_dims);
  Value p = reshape(op.tensor("self", compute), {m, n});

  if (!replacement || k == 1) {
    // The largest log(p) - log(E), E exponential, is drawn with probability p; the next ones follow without
    // replacement.
    Value e = exponential_from_bits(draw_bits(op, bits_type(compute), {m, n}));
    Value keys = stablehlo::log(p) - stablehlo::log(e);
    return reshape(convert(top_k(keys, k)[1], kS64), out_dims);
  }

  Value zero = constant(op.builder(), compute, 0.0);
  Value cdf = scan_last_dim(p, zero, add);
  // Sums of the scan's tree may step back by a rounding.
  cdf = scan_last_dim(cdf, zero, maximum);
  Value total = slice_dim(cdf, 1, n - 1, n);
  Value target = half_open_unit(draw_bits(op, bits_type(compute), {m, k}), significand_bits(compute)) *
                 broadcast_to(total, {m, k});
  // First index with cdf > target, by bisection of [low, high].
  Value row = iota(op.builder(), kS64, {m, k, 1}, 0);
  auto at = [&](Value values, Value index) {
    const Value both[2] = {row, reshape(index, {m, k, 1})};
    GatherDims g;
    g.collapsed_slice_dims = g.start_index_map = {0, 1};
    g.index_vector_dim = 2;
    return gather(values, concatenate(both, 2), g, {1, 1});
  };
  Value low = constant(op.builder(), kS64, 0, {m, k}), high = constant(op.builder(), kS64, n - 1, {m, k});
  for (int64_t span = n; span > 1; span = (span + 1) / 2) {
    Value middle = shift_right_arithmetic(low + high, constant_like(low, 1));
    Value right = less_equal(at(cdf, middle), target);
    low = select(right, minimum(middle + constant_like(low, 1), high), low);
    high = select(right, high, middle);
  }
  // Roundings could end on a category of probability 0: the nearest one before it that has some takes its place, or the
  // first of the row.
  Value index = iota(op.builder(), kS64, {m, n}, 1), possible = greater(p, constant_like(p, 0.0));
  Value none = constant(op.builder(), kS64, -1), far = constant(op.builder(), kS64, n);
  Value before = scan_last_dim(select(possible, index, like(index, none)), none, maximum);
  Value first = reduce_min(select(possible, index, like(index, far)), {1});
  first = minimum(first, constant_like(first, n - 1));
  Value chosen = at(before, low);
  Value start = broadcast_in_dim(first, {m, k}, {0});
  return reshape(select(less(chosen, constant_like(chosen, 0)), start, chosen), out_dims);
}

}  // namespace

void register_random_sampling(Registry& r) {
  r.add("poisson", poisson).like("self").note("drawn in float32 on TPU, in float64 elsewhere");
  r.add("binomial", binomial).like("count").note("drawn in float32 on TPU, in float64 elsewhere");
  r.add("_standard_gamma", standard_gamma).like("self");
  r.add("_standard_gamma_grad", standard_gamma_grad).like("self");
  r.add("_sample_dirichlet", sample_dirichlet).like("self");
  r.add("_dirichlet_grad", dirichlet_grad).like("x");
  r.add("multinomial", multinomial);
}

}  // namespace torch_tpu::lowering
