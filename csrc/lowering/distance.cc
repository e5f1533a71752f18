// Pairwise p-norm distances: cdist, pdist and their backwards.
#include <cmath>
#include <limits>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// The p-norm over the last dim.
Value norm_of(Value difference, double p) {
  Value a = abs(difference);
  const Dims last{a.rank() - 1};
  if (a.dims().back() == 0) return reduce_sum(a, last);
  if (std::isinf(p)) return reduce_max(a, last);
  if (p == 0) return reduce_sum(convert(not_equal(a, constant_like(a, 0)), a.element()), last);
  if (p == 1) return reduce_sum(a, last);
  if (p == 2) return sqrt(reduce_sum(a * a, last));
  Value sum = reduce_sum(power(a, constant_like(a, p)), last);
  return power(sum, constant_like(sum, 1 / p));
}

// d norm / d difference times grad, elementwise; dist and grad have the dims of `difference` already.
Value norm_gradient(Value difference, Value grad, Value dist, double p) {
  Value zero = constant_like(difference, 0);
  if (p == 0) return zero;
  if (p == 1) return grad * sign(difference);
  Value result;
  if (std::isinf(p)) {
    Value reaches = equal(abs(difference), dist);
    result = select(reaches, grad * sign(difference), zero);
  } else if (p == 2) {
    result = grad * difference / dist;
  } else if (p < 2) {
    Value e = constant_like(difference, p - 1);
    result = sign(difference) * power(abs(difference), e) * grad / power(dist, e);
    if (p < 1) result = select(equal(difference, zero), zero, result);
  } else {
    result = difference * power(abs(difference), constant_like(difference, p - 2)) * grad /
             power(dist, constant_like(dist, p - 1));
  }
  return select(equal(dist, zero), zero, result);
}

// x1 [B, P, M] and x2 [B, R, M] with the batch dims broadcast and flattened.
struct Points {
  ElementType out, type;
  Dims batch;
  int64_t b = 1, p, r, m;
  Value x1, x2;

  Points(const Op& op) : out(common_type(op, {"x1", "x2"})), type(opmath_type(out)) {
    x1 = op.tensor("x1", type), x2 = op.tensor("x2", type);
    Dims d1 = x1.dims(), d2 = x2.dims();
    p = d1.at(d1.size() - 2), r = d2.at(d2.size() - 2), m = d1.back();
    batch = broadcast_dims(Dims(d1.begin(), d1.end() - 2), Dims(d2.begin(), d2.end() - 2));
    for (int64_t d : batch) b *= d;
    x1 = reshape(broadcast_to(x1, with(p, m)), {b, p, m});
    x2 = reshape(broadcast_to(x2, with(r, m)), {b, r, m});
  }
  Dims with(int64_t rows, int64_t columns) const {
    Dims d = batch;
    d.insert(d.end(), {rows, columns});
    return d;
  }
  Dims cube() const { return {b, p, r, m}; }
  Value difference() const { return broadcast_in_dim(x1, cube(), {0, 1, 3}) - broadcast_in_dim(x2, cube(), {0, 2, 3}); }
};

Value cdist_forward(Op& op) {
  Points c(op);
  const double p = op.constant_real("p");
  // CPU's modes: 0 (default) takes the matrix product for more than 25 points, 1 always, 2 never.
  const int64_t mode = op.integer_or("compute_mode", 0);
  const bool product = p == 2 && (mode == 1 || (mode == 0 && (c.p > 25 || c.r > 25)));
  if (!product) return convert(reshape(norm_of(c.difference(), p), c.with(c.p, c.r)), c.out);
  Value dot = dot_general(c.x1, c.x2, {{0}, {0}, {2}, {2}}, DotPrecision::kHighest);
  Value s1 = reduce_sum(c.x1 * c.x1, {2}), s2 = reduce_sum(c.x2 * c.x2, {2});
  Value squared =
      broadcast_in_dim(s1, dot.dims(), {0, 1}) + broadcast_in_dim(s2, dot.dims(), {0, 2}) - constant_like(dot, 2) * dot;
  Value result = sqrt(maximum(squared, constant_like(squared, 0)));
  return convert(reshape(result, c.with(c.p, c.r)), c.out);
}

Value cdist_backward(Op& op) {
  Points c(op);
  // As ATen has it, nothing to differentiate leaves x1 as it is, not broadcast.
  if (c.b * c.p * c.r * c.m == 0) return constant(op.builder(), c.out, 0, op.dims("x1"));
  const Dims plane{c.b, c.p, c.r};
  Value grad = reshape(broadcast_to(op.tensor("grad", c.type), c.with(c.p, c.r)), plane);
  Value dist = reshape(broadcast_to(op.tensor("cdist", c.type), c.with(c.p, c.r)), plane);
  Value d = norm_gradient(c.difference(), broadcast_in_dim(grad, c.cube(), {0, 1, 2}),
                          broadcast_in_dim(dist, c.cube(), {0, 1, 2}), op.constant_real("p"));
  return convert(reshape(reduce_sum(d, {2}), c.with(c.p, c.m)), c.out);
}

// Row pairs i < j of n rows in order: k = offset(i) + j - i - 1.
Value pair_offset(Value i, int64_t n) {
  Value one = constant_like(i, 1);
  return i * constant_like(i, n) - shift_right_logical(i * (i + one), one);
}

std::pair<Value, Value> pairs(Builder& b, int64_t n) {
  const int64_t count = n * (n - 1) / 2;
  Value k = iota(b, ElementType::kS64, {count}, 0), one = constant_like(k, 1);
  // The root of the quadratic gives i up to rounding; integers then settle it.
  Value kf = convert(k, ElementType::kF64);
  const double half = static_cast<double>(n) - 0.5;
  Value root = sqrt(maximum(constant_like(kf, half * half) - constant_like(kf, 2) * kf, constant_like(kf, 0)));
  Value i = convert(floor(constant_like(kf, half) - root), ElementType::kS64);
  i = minimum(maximum(i, constant_like(i, 0)), constant_like(i, n - 2));
  i = select(greater(pair_offset(i, n), k), i - one, i);
  i = select(less_equal(pair_offset(i + one, n), k), i + one, i);
  return {i, k - pair_offset(i, n) + i + one};
}

Value pdist_forward(Op& op) {
  const ElementType out = op.element("self");
  Value x = op.tensor("self", opmath_type(out));
  const int64_t n = x.dim(0);
  if (n < 2) return constant(op.builder(), out, 0, {0});
  if (x.dim(1) == 0) return constant(op.builder(), out, 0, {n * (n - 1) / 2});
  auto [i, j] = pairs(op.builder(), n);
  return convert(norm_of(take(x, i, 0) - take(x, j, 0), op.constant_real("p")), out);
}

Value pdist_backward(Op& op) {
  const ElementType out = op.element("self");
  Value x = op.tensor("self", opmath_type(out));
  const int64_t n = x.dim(0), m = x.dim(1);
  if (n < 2 || m == 0) return constant(op.builder(), out, 0, x.dims());
  const Dims plane{n, n}, cube{n, n, m};
  Value i = iota(op.builder(), ElementType::kS64, plane, 0), j = iota(op.builder(), ElementType::kS64, plane, 1);
  Value low = minimum(i, j), high = maximum(i, j), one = constant_like(i, 1);
  Value k = pair_offset(low, n) + high - low - one;
  Value diagonal = equal(i, j);
  k = select(diagonal, constant_like(k, 0), k);
  auto square = [&](std::string_view arg) {
    Value v = take(op.tensor(arg, x.element()), k, 0);
    return broadcast_in_dim(select(diagonal, constant_like(v, 0), v), cube, {0, 1});
  };
  Value difference = broadcast_in_dim(x, cube, {0, 2}) - broadcast_in_dim(x, cube, {1, 2});
  Value d = norm_gradient(difference, square("grad"), square("pdist"), op.constant_real("p"));
  return convert(reduce_sum(d, {1}), out);
}

}  // namespace

void register_distance(Registry& r) {
  r.add("_cdist_forward", cdist_forward).structural({"p"});
  r.add("_cdist_backward", cdist_backward).structural({"p"});
  r.add("_pdist_forward", pdist_forward).structural({"p"});
  r.add("_pdist_backward", pdist_backward).structural({"p"});
}

}  // namespace torch_tpu::lowering
