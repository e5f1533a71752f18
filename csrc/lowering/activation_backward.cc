// Gradients of activation functions. Reduced floats compute in f32.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

// The gradient and what it is taken at, of one type and shape.
struct Inputs {
  Value grad, x;
};
Inputs inputs(const Op& op, std::string_view grad = "grad_output", std::string_view x = "self") {
  const ElementType t = opmath_type(common_type(op, {grad, x}));
  Inputs in{op.tensor(grad, t), op.tensor(x, t)};
  broadcast_all({&in.grad, &in.x});
  return in;
}
Value number(const Op& op, std::string_view arg, Value x) { return like(x, op.scalar(arg, x.element())); }
Value rounded_number(const Op& op, std::string_view arg, std::string_view tensor, Value x) {
  return like(x, convert(op.scalar(arg, op.element(tensor)), x.element()));
}

Value sigmoid_backward(Op& op) {
  auto [g, y] = inputs(op, "grad_output", "output");
  return g * conjugate((constant_like(y, 1) - y) * y);
}

Value tanh_backward(Op& op) {
  auto [g, y] = inputs(op, "grad_output", "output");
  return g * conjugate(constant_like(y, 1) - y * y);
}

Value logit_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value zero = constant_like(x, 0), one = constant_like(x, 1);
  Value low = zero, high = one, outside = constant_like(x, std::nan(""));
  if (op.has("eps")) {
    Value eps = number(op, "eps", x), off = less(eps, 0);
    low = select(off, zero, eps);
    high = select(off, one, one - eps);
    outside = select(off, outside, zero);
  }
  Value edge = logical_or(equal(x, 0), equal(x, 1));
  Value inside = select(edge, g * std::numeric_limits<double>::infinity(), g / (x * (one - x)));
  return select(logical_or(less(x, low), greater(x, high)), outside, inside);
}

Value threshold_backward(Op& op) {
  const ElementType t = common_type(op, {"grad_output", "self"});
  Value g = op.tensor("grad_output", t), x = op.tensor("self", t);
  broadcast_all({&g, &x});
  return select(less_equal(x, number(op, "threshold", x)), constant_like(g, 0), g);
}

Value leaky_relu_backward(Op& op) {
  auto [g, x] = inputs(op);
  return select(greater(x, 0), g, g * number(op, "negative_slope", x));
}

Value elu_backward(Op& op) {
  auto [g, x] = inputs(op, "grad_output", "self_or_result");
  Value scale = number(op, "scale", x), alpha = number(op, "alpha", x) * scale;
  Value input_scale = number(op, "input_scale", x);
  Value negative =
      op.boolean("is_result") ? g * input_scale * (x + alpha) : g * input_scale * alpha * exponential(x * input_scale);
  return select(greater(x, 0), g * scale, negative);
}

Value gelu_backward(Op& op) {
  auto [g, x] = inputs(op);
  if (op.string("approximate") == "tanh") {
    const double beta = std::sqrt(2 / std::numbers::pi), kappa = 0.044715;
    Value square = x * x;
    Value t = tanh((x + square * x * kappa) * beta);
    Value left = t * 0.5 + 0.5;
    Value right = x * 0.5 * (1.0 - t * t) * (square * (3 * kappa * beta) + beta);
    return g * (left + right);
  }
  Value cdf = erf(x * (std::numbers::sqrt2 / 2)) * 0.5 + 0.5;
  Value pdf = exponential(x * x * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return g * (cdf + x * pdf);
}

Value silu_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value s = logistic(x), one = constant_like(x, 1);
  return g * s * (one + x * (one - s));  // no conjugate, also for complex: as ATen
}

Value mish_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value s = logistic(x), t = tanh(log_plus_one(exponential(x)));
  return g * (t + x * s * (1.0 - t * t));
}

Value hardswish_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value middle = g * (x / 3.0 + 0.5);
  return select(less_equal(x, -3), constant_like(g, 0), select(greater_equal(x, 3), g, middle));
}

Value hardsigmoid_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value inside = logical_and(greater(x, -3), less(x, 3));
  return select(inside, g * (1.0 / 6), constant_like(g, 0));
}

Value hardtanh_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value inside = logical_and(greater(x, rounded_number(op, "min_val", "self", x)),
                             less(x, rounded_number(op, "max_val", "self", x)));
  return select(inside, g, constant_like(g, 0));
}

Value softplus_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value scaled = x * number(op, "beta", x);
  // z / (z + 1) of z = exp(scaled); the threshold keeps z finite where this is taken.
  Value z = exponential(scaled);
  return select(greater(scaled, number(op, "threshold", x)), g, g * z / (z + 1.0));
}

// Gradient of both shrinkages: 0 within [-lambda, lambda].
Value shrink_backward(Op& op) {
  const ElementType given = op.element("self");
  if (!is_floating(given)) throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(given) + "'");
  auto [g, x] = inputs(op, op.has("grad_output") ? "grad_output" : "grad_out");
  Value lambda = rounded_number(op, "lambd", "self", x);
  Value outside = logical_or(less(x, negate(lambda)), greater(x, lambda));
  return select(outside, g, constant_like(g, 0));
}

Value log_sigmoid_backward(Op& op) {
  auto [g, x] = inputs(op);
  // The buffer exp(-|x|) is as cheap to compute as to read.
  Value z = exponential(negate(abs(x)));
  Value fraction = z / (z + 1.0);
  return g * select(less(x, 0), 1.0 - fraction, fraction);
}

Results prelu_kernel_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value weight = op.tensor("weight", x.element());
  broadcast_all({&g, &x, &weight});
  Value positive = greater(x, 0);
  return {select(positive, g, g * weight), select(positive, 0.0, g * x)};
}

struct Halves {
  Value first, second;
};
Halves halves(Value x, int64_t dim) {
  const int64_t n = x.dims().at(static_cast<size_t>(dim)) / 2;
  return {slice_dim(x, dim, 0, n), slice_dim(x, dim, n, 2 * n)};
}

Value glu_backward(Op& op) {
  const ElementType t = opmath_type(op.element("self"));
  Value x = op.tensor("self", t), g = op.tensor("grad_output", t);
  const int64_t dim = wrap_dim(op.integer("dim"), x.rank());
  auto [a, b] = halves(x, dim);
  Value s = logistic(b);
  const Value parts[] = {g * s, g * a * (1.0 - s) * s};
  return concatenate(parts, dim);
}

// Tangent of glu_backward: `grad_x` is its result, (ga, gb) = (g s, ga (a - a s)).
Value glu_backward_jvp(Op& op) {
  const ElementType t = opmath_type(op.element("x"));
  Value x = op.tensor("x", t), g = op.tensor("grad_glu", t), dg = op.tensor("dgrad_glu", t);
  const int64_t dim = wrap_dim(op.integer("dim"), x.rank());
  auto [a, b] = halves(x, dim);
  auto [da, db] = halves(op.tensor("dx", t), dim);
  Value s = logistic(b);
  Value ds = s * (1.0 - s) * db;
  Value dga = dg * s + g * ds;
  // gb = g a s (1 - s)
  Value slope = s * (1.0 - s);
  Value dgb = dg * a * slope + g * da * slope + g * a * ds * (1.0 - s * 2.0);
  const Value parts[] = {dga, dgb};
  return convert(concatenate(parts, dim), op.element("grad_x"));
}

Value rrelu_with_noise_backward(Op& op) {
  auto [g, x] = inputs(op);
  Value lower = op.scalar("lower", x.element()), upper = op.scalar("upper", x.element());
  Value fixed = select(greater(x, 0), g, g * like(x, (lower + upper) * 0.5));
  if (!op.boolean("training")) return fixed;
  Value noise = like(x, op.tensor("noise", x.element()));
  return select(like(x, greater(abs(upper - lower), 1e-6)), g * noise, fixed);
}

}  // namespace

void register_activation_backward(Registry& r) {
  r.add("sigmoid_backward", sigmoid_backward);
  r.add("tanh_backward", tanh_backward);
  r.add("logit_backward", logit_backward);
  r.add("threshold_backward", threshold_backward);
  r.add("leaky_relu_backward", leaky_relu_backward);
  r.add("elu_backward", elu_backward);
  r.add("gelu_backward", gelu_backward);
  r.add("silu_backward", silu_backward);
  r.add("mish_backward", mish_backward).like("self");
  r.add("hardswish_backward", hardswish_backward).like("self");
  r.add("hardsigmoid_backward", hardsigmoid_backward);
  r.add("hardtanh_backward", hardtanh_backward).like("self");
  r.add("softplus_backward", softplus_backward);
  r.add("softshrink_backward", shrink_backward);
  r.add("hardshrink_backward", shrink_backward);
  r.add("log_sigmoid_backward", log_sigmoid_backward).like("self");
  r.add("_prelu_kernel_backward", prelu_kernel_backward).like("self");
  r.add("glu_backward", glu_backward).like("self");
  r.add("glu_backward_jvp", glu_backward_jvp).like("grad_x");
  r.add("rrelu_with_noise_backward", rrelu_with_noise_backward).like("self");
}

}  // namespace torch_tpu::lowering
