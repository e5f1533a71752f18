// cumsum, cumprod, cummax, cummin, logcumsumexp, renorm.
#include "lowering/scan.h"

#include <limits>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

// Blocks of 16 by reduce_window, then the blocks' totals by recursion: O(16 n) work in log16(n) steps. One
// reduce_window over all of a long dim is O(n^2) on XLA's CPU backend, and log-step shifts make its fusions repeat
// work. Windows longer than 16 would be split by XLA itself, which fails for several arrays at once.
std::vector<Value> windowed_scan(std::span<const Value> xs, std::span<const Value> identities, int64_t dim,
                                 const RegionBody& combine) {
  constexpr int64_t kBlock = 16;
  const size_t d = static_cast<size_t>(dim), count = xs.size();
  const Dims dims = xs[0].dims();
  const int64_t rank = xs[0].rank(), n = dims.at(d);
  if (xs[0].numel() == 0 || n == 1) return {xs.begin(), xs.end()};

  auto windowed = [&](std::span<const Value> values, int64_t axis, int64_t length) {
    const size_t r = values[0].dims().size();
    Window window;
    window.dimensions.assign(r, 1);
    window.dimensions[static_cast<size_t>(axis)] = length;
    window.padding.assign(r, {0, 0});
    window.padding[static_cast<size_t>(axis)] = {length - 1, 0};
    return reduce_window_many(values, identities, window, combine);
  };
  if (n <= kBlock) return windowed(xs, dim, n);

  const int64_t blocks = (n + kBlock - 1) / kBlock;
  Dims blocked = dims, totals_dims = dims, padding(dims.size(), 0), zeros(dims.size(), 0);
  blocked[d] = blocks;
  blocked.insert(blocked.begin() + dim + 1, kBlock);
  totals_dims[d] = blocks;
  padding[d] = blocks * kBlock - n;
  std::vector<Value> inner;
  for (size_t i = 0; i < count; ++i) inner.push_back(reshape(pad(xs[i], identities[i], zeros, padding), blocked));
  inner = windowed(inner, dim + 1, kBlock);

  std::vector<Value> totals;
  for (const Value& v : inner) totals.push_back(reshape(slice_dim(v, dim + 1, kBlock - 1, kBlock), totals_dims));
  totals = windowed_scan(totals, identities, dim, combine);
  // What precedes each block: the totals, shifted by one.
  Dims one = zeros, minus_one = zeros, spread;
  one[d] = 1;
  minus_one[d] = -1;
  for (int64_t i = 0; i < rank; ++i) spread.push_back(i <= dim ? i : i + 1);
  std::vector<Value> before;
  for (size_t i = 0; i < count; ++i)
    before.push_back(broadcast_in_dim(pad(totals[i], identities[i], one, minus_one), blocked, spread));

  std::vector<Value> arguments = before;
  arguments.insert(arguments.end(), inner.begin(), inner.end());
  std::vector<Value> results = combine(arguments);
  Dims padded = dims;
  padded[d] = blocks * kBlock;
  for (Value& v : results) v = slice_dim(reshape(v, padded), dim, 0, n);
  return results;
}

// Each step doubles the reach.
std::vector<Value> shifted_scan(std::span<const Value> xs, std::span<const Value> identities, int64_t dim,
                                const RegionBody& combine) {
  std::vector<Value> current(xs.begin(), xs.end());
  const Dims zeros(xs[0].dims().size(), 0);
  for (int64_t shift = 1; shift < xs[0].dims().at(static_cast<size_t>(dim)); shift *= 2) {
    Dims low = zeros, high = zeros;
    low[static_cast<size_t>(dim)] = shift;
    high[static_cast<size_t>(dim)] = -shift;
    std::vector<Value> arguments;
    for (size_t i = 0; i < xs.size(); ++i) arguments.push_back(pad(current[i], identities[i], low, high));
    arguments.insert(arguments.end(), current.begin(), current.end());
    current = combine(arguments);
  }
  return current;
}

}  // namespace

std::vector<Value> inclusive_scan(const Target& target, std::span<const Value> xs, std::span<const Value> identities,
                                  int64_t dim, const RegionBody& combine) {
  // libtpu crashes on windows with a combination of its own when it fuses them (logcumsumexp of bfloat16).
  return target.is_tpu() ? shifted_scan(xs, identities, dim, combine) : windowed_scan(xs, identities, dim, combine);
}

Value inclusive_scan(Value x, Value identity, int64_t dim, const Combine& combine) {
  return windowed_scan(std::span<const Value>(&x, 1), std::span<const Value>(&identity, 1), dim,
                       [&](std::span<const Value> a) { return std::vector<Value>{combine(a[0], a[1])}; })[0];
}

namespace {

ElementType accumulated_type(const Op& op) {
  if (auto dtype = op.dtype("dtype")) return *dtype;
  const ElementType e = op.element("self");
  return is_integer(e) || is_bool(e) ? ElementType::kS64 : e;
}

Value cumulative(Op& op, int start, const Combine& combine) {
  const ElementType out = accumulated_type(op);
  const int64_t dim = wrap_dim(op.integer("dim"), op.rank("self"));
  // The cast to the result's type comes first; reduced floats then accumulate in f32. Sums of bool are counts that
  // saturate at true.
  Value x = convert(op.tensor("self", out), is_bool(out) ? ElementType::kS64 : opmath_type(out));
  Value identity = constant(op.builder(), x.element(), start);
  Value y = inclusive_scan(at_least_1d(x), identity, dim, combine);
  return convert(reshape(y, x.dims()), out);
}

Value cumsum(Op& op) { return cumulative(op, 0, add); }
Value cumprod(Op& op) { return cumulative(op, 1, multiply); }

// Values and int64 indices. Among equal elements the last one counts, and NaN stays.
Results cumulative_extreme(Op& op, Comparison keeps) {
  Value x = op.tensor("self");
  const int64_t dim = wrap_dim(op.integer("dim"), op.rank("self"));
  const Dims dims = x.dims();
  Value v = at_least_1d(x);
  const int64_t n = v.dims()[static_cast<size_t>(dim)];
  const ElementType index = index_type(n);
  Value i = iota(op.builder(), index, v.dims(), dim);
  // An identity by its index: -1 marks "nothing yet", which loses to any element.
  const Value xs[2] = {v, i};
  const Value identities[2] = {constant(op.builder(), v.element(), 0), constant(op.builder(), index, -1)};
  std::vector<Value> r = inclusive_scan(op.target(), xs, identities, dim, [&](std::span<const Value> a) {
    Value none = less(a[1], constant_like(a[1], 0)), later_none = less(a[3], constant_like(a[3], 0));
    Value takes = compare(keeps, a[2], a[0]);
    if (is_floating(a[0].element())) takes = logical_or(is_nan(a[2]), logical_and(logical_not(is_nan(a[0])), takes));
    takes = logical_and(logical_not(later_none), logical_or(none, takes));
    return std::vector<Value>{select(takes, a[2], a[0]), select(takes, a[3], a[1])};
  });
  return {reshape(r[0], dims), convert(reshape(r[1], dims), ElementType::kS64)};
}

Results cummax(Op& op) { return cumulative_extreme(op, Comparison::kGe); }
Results cummin(Op& op) { return cumulative_extreme(op, Comparison::kLe); }

Results write_both(Op& op, const Results& r) {
  op.write("values", r[0]);
  op.write("indices", r[1]);
  return {};
}
Results cummax_helper(Op& op) { return write_both(op, cummax(op)); }
Results cummin_helper(Op& op) { return write_both(op, cummin(op)); }

// log(exp(a) + exp(b)); equal infinities stay what they are.
Value log_add_exp(Value a, Value b) {
  if (!is_complex(a.element())) {
    Value high = maximum(a, b), low = minimum(a, b);
    Value sum = high + log_plus_one(exponential(low - high));
    return select(logical_and(equal(a, b), is_inf(a)), a, sum);
  }
  // The part with the larger real part leads; log1p of a complex number has no direct form that is exact near 0.
  Value a_leads = greater_equal(real(a), real(b));
  Value high = select(a_leads, a, b), low = select(a_leads, b, a);
  Value z = exponential(low - high);
  Value re = real(z), im = imag(z);
  Value log_modulus = constant_like(re, 0.5) * log_plus_one(re * (re + constant_like(re, 2)) + im * im);
  Value sum = high + complex(log_modulus, atan2(im, re + constant_like(re, 1)));
  Value bottom =
      logical_and(equal(real(low), constant_like(re, -std::numeric_limits<double>::infinity())), is_inf(real(low)));
  return select(bottom, high, sum);
}

Value logcumsumexp(Op& op) {
  const ElementType out = to_float(op, op.element("self"));
  const int64_t dim = wrap_dim(op.integer("dim"), op.rank("self"));
  Value x = op.tensor("self", opmath_type(out));
  const double bottom = -std::numeric_limits<double>::infinity();
  Value identity = is_complex(x.element()) ? constant(op.builder(), x.element(), std::complex<double>(bottom, 0))
                                           : constant(op.builder(), x.element(), bottom);
  const Value v = at_least_1d(x);
  Value y = inclusive_scan(op.target(), {&v, 1}, {&identity, 1}, dim,
                           [](std::span<const Value> a) { return std::vector<Value>{log_add_exp(a[0], a[1])}; })[0];
  return convert(reshape(y, x.dims()), out);
}

// Slices along `dim` whose p-norm exceeds maxnorm are scaled down to it.
Value renorm(Op& op) {
  const ElementType out = op.element("self");
  const int64_t rank = op.rank("self"), dim = wrap_dim(op.integer("dim"), rank);
  const double p = op.constant_real("p");
  Value x = op.tensor("self", opmath_type(out));
  Dims others;
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim) others.push_back(i);
  Value a = abs(x), norms;
  if (p == std::numeric_limits<double>::infinity()) {
    norms = x.numel() == 0 ? reduce_sum(a, others) : reduce_max(a, others);
  } else if (p == 1) {
    norms = reduce_sum(a, others);
  } else if (p == 2) {
    norms = sqrt(reduce_sum(a * a, others));
  } else {
    Value total = reduce_sum(power(a, constant_like(a, p)), others);
    norms = power(total, constant_like(total, 1 / p));
  }
  Value limit = like(norms, op.scalar("maxnorm", norms.element()));
  Value factor = select(greater(norms, limit), limit / (norms + constant_like(norms, 1e-7)), constant_like(norms, 1));
  factor = convert(factor, x.element());
  return convert(x * broadcast_in_dim(factor, x.dims(), {dim}), out);
}

}  // namespace

void register_scan(Registry& r) {
  r.add("cumsum", cumsum);
  r.add("cumprod", cumprod);
  r.add("cummax", cummax);
  r.add("cummin", cummin);
  r.add("_cummax_helper", cummax_helper).mutates({"values", "indices"});
  r.add("_cummin_helper", cummin_helper).mutates({"values", "indices"});
  r.add("logcumsumexp", logcumsumexp);
  r.add("_logcumsumexp", logcumsumexp);
  r.add("renorm", renorm).structural({"p"});
}

}  // namespace torch_tpu::lowering
