// Orthogonal polynomials of a real x and a degree n, a tensor each: the three-term recurrence runs up to the greatest
// degree and each element stops at its own.
#include <cmath>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

const double kNaN = std::nan("");

// p, q = p_1, p_0, then p_{k+1} = step(k, p_k, p_{k-1}); gives p_n. `k` is a rank-0 value of x's type.
using Step = std::function<Value(Value k, Value p, Value q, Value x)>;

Value recurrence(Value x, Value n, Value p0, Value p1, const Step& step) {
  Builder& b = x.builder();
  auto state = while_loop(
      std::vector<Value>{constant(b, x.element(), 1), p1, p0, n, x},
      [](std::span<const Value> v) { return any(greater(v[3], like(v[3], v[0]))); },
      [&](std::span<const Value> v) {
        Value next = step(like(v[1], v[0]), v[1], v[2], v[4]);
        Value active = greater(v[3], like(v[3], v[0]));
        return std::vector<Value>{v[0] + 1.0, select(active, next, v[1]), select(active, v[1], v[2]), v[3], v[4]};
      });
  Value result = select(equal(n, 0), p0, state[1]);
  return select(less(n, 0), 0.0, result);
}

struct Operands {
  Value x, n;
};

Operands polynomial_operands(const Op& op) {
  const ElementType t = special_type(op.target(), common_float_type(op, {"x", "n"}));
  Value x = operand(op, "x", t), n = truncate(operand(op, "n", t));
  broadcast_all({&x, &n});
  return {x, select(is_nan(n), -1.0, n)};
}

Value is_even(Value n) { return equal(n - floor(n * 0.5) * 2.0, 0); }
// (-1)^n
Value alternating(Value n) { return select(is_even(n), constant_like(n, 1.0), constant_like(n, -1.0)); }

Value chebyshev_step(Value, Value p, Value q, Value x) { return (x + x) * p - q; }

// Inside (-1, 1) through the angle, which stays bounded for every degree; outside by the recurrence, at most as far as
// it takes to overflow.
template <char kKind>
Value chebyshev(Value x, Value n) {
  Value inside = less(abs(x), 1);
  Value angle = acos(select(inside, x, 0.0));
  Value trigonometric, edge_plus, edge_minus, p1;
  Value sign = alternating(n), ones = constant_like(x, 1.0);
  if constexpr (kKind == 'T') {
    trigonometric = cosine(n * angle);
    edge_plus = ones;
    edge_minus = sign;
    p1 = x;
  } else if constexpr (kKind == 'U') {
    Value s = sine(angle);
    trigonometric = sine((n + 1.0) * angle) / select(equal(s, 0), 1.0, s);
    edge_plus = n + 1.0;
    edge_minus = (n + 1.0) * sign;
    p1 = x + x;
  } else if constexpr (kKind == 'V') {
    trigonometric = cosine((n + 0.5) * angle) / cosine(angle * 0.5);
    edge_plus = ones;
    edge_minus = (n + n + 1.0) * sign;
    p1 = x + x - 1.0;
  } else {
    trigonometric = sine((n + 0.5) * angle) / sine(angle * 0.5);
    edge_plus = n + n + 1.0;
    edge_minus = sign;
    p1 = x + x + 1.0;
  }
  // Low degrees by the recurrence everywhere: exact for exact x.
  Value by_angle = logical_and(inside, greater(n, 8));
  Value edge = equal(abs(x), 1);
  Value degree = select(logical_or(by_angle, edge), 0.0, minimum(n, constant_like(n, 1e5)));
  Value result = recurrence(x, degree, ones, p1, chebyshev_step);
  result = select(by_angle, trigonometric, result);
  result = select(edge, select(greater(x, 0), edge_plus, edge_minus), result);
  return select(less(n, 0), 0.0, result);
}

template <char kKind, bool kShifted>
Value chebyshev_op(Op& op) {
  auto [x, n] = polynomial_operands(op);
  return chebyshev<kKind>(kShifted ? x + x - 1.0 : x, n);
}

template <bool kPhysicist>
Value hermite(Op& op) {
  auto [x, n] = polynomial_operands(op);
  // ATen's limits of the degree.
  const bool wide = to_float(op, common_type(op, {"x", "n"})) == ElementType::kF64;
  Value beyond = greater(n, wide ? 512 : 128);
  const double scale = kPhysicist ? 2 : 1;
  Value result = recurrence(x, select(beyond, 0.0, n), constant_like(x, 1.0), x * scale,
                            [=](Value k, Value p, Value q, Value t) { return (t * p - k * q) * scale; });
  return select(beyond, kNaN, result);
}

Value laguerre(Op& op) {
  auto [x, n] = polynomial_operands(op);
  Value zero = equal(x, 0);
  Value result =
      recurrence(x, select(zero, 0.0, n), constant_like(x, 1.0), 1.0 - x,
                 [](Value k, Value p, Value q, Value t) { return ((k + k + 1.0 - t) * p - k * q) / (k + 1.0); });
  return select(less(n, 0), 0.0, result);
}

Value legendre(Op& op) {
  auto [x, n] = polynomial_operands(op);
  Value edge = equal(abs(x), 1);
  Value result = recurrence(x, select(edge, 0.0, n), constant_like(x, 1.0), x, [](Value k, Value p, Value q, Value t) {
    return ((k + k + 1.0) * t * p - k * q) / (k + 1.0);
  });
  result = select(edge, select(greater(x, 0), constant_like(x, 1.0), alternating(n)), result);
  return select(less(n, 0), 0.0, result);
}

void add_forms(Registry& r, const std::string& name, SingleLoweringFunction function) {
  for (const char* form : {"", ".x_scalar", ".n_scalar"}) r.add("special_" + name + form, function);
}

}  // namespace

void register_polynomial(Registry& r) {
  add_forms(r, "chebyshev_polynomial_t", chebyshev_op<'T', false>);
  add_forms(r, "chebyshev_polynomial_u", chebyshev_op<'U', false>);
  add_forms(r, "chebyshev_polynomial_v", chebyshev_op<'V', false>);
  add_forms(r, "chebyshev_polynomial_w", chebyshev_op<'W', false>);
  add_forms(r, "shifted_chebyshev_polynomial_t", chebyshev_op<'T', true>);
  add_forms(r, "shifted_chebyshev_polynomial_u", chebyshev_op<'U', true>);
  add_forms(r, "shifted_chebyshev_polynomial_v", chebyshev_op<'V', true>);
  add_forms(r, "shifted_chebyshev_polynomial_w", chebyshev_op<'W', true>);
  add_forms(r, "hermite_polynomial_h", hermite<true>);
  add_forms(r, "hermite_polynomial_he", hermite<false>);
  add_forms(r, "laguerre_polynomial_l", laguerre);
  add_forms(r, "legendre_polynomial_p", legendre);
}

}  // namespace torch_tpu::lowering
