// Activation functions, forward. Reduced floats compute in f32.
#include <cmath>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

Value opmath_tensor(const Op& op, std::string_view arg) { return op.tensor(arg, opmath_type(op.element(arg))); }
Value number(const Op& op, std::string_view arg, Value x) { return like(x, op.scalar(arg, x.element())); }
// The same, rounded first to the tensor's type, as thresholds are in ATen.
Value rounded_number(const Op& op, std::string_view arg, std::string_view tensor, Value x) {
  return like(x, convert(op.scalar(arg, op.element(tensor)), x.element()));
}

Value relu(Op& op) {
  Value x = op.tensor("self");
  return maximum(x, constant_like(x, 0));
}

Value threshold(Op& op) {
  Value x = op.tensor("self");
  return select(less_equal(x, number(op, "threshold", x)), number(op, "value", x), x);
}

Value leaky_relu(Op& op) {
  Value x = opmath_tensor(op, "self");
  return select(greater(x, 0), x, x * number(op, "negative_slope", x));
}

Value elu(Op& op) {
  Value x = opmath_tensor(op, "self");
  Value scale = number(op, "scale", x);
  Value scaled = op.scalar_equals("input_scale", 1) ? x : x * number(op, "input_scale", x);
  Value negative = exponential_minus_one(scaled) * (number(op, "alpha", x) * scale);
  return select(less(x, 0), negative, op.scalar_equals("scale", 1) ? x : x * scale);
}

Value gelu(Op& op) {
  Value x = opmath_tensor(op, "self");
  if (op.string("approximate") == "tanh") {
    Value inner = (x + x * x * x * 0.044715) * std::sqrt(2 / std::numbers::pi);
    return x * 0.5 * (tanh(inner) + 1.0);
  }
  return x * 0.5 * (erf(x * (std::numbers::sqrt2 / 2)) + 1.0);
}

Value silu(Op& op) {
  Value x = opmath_tensor(op, "self");
  return x * logistic(x);
}

Value mish(Op& op) {
  Value x = opmath_tensor(op, "self");
  return x * tanh(log_plus_one(exponential(x)));
}

// min(max(x + 3, 0), 6)
Value relu6_of_shifted(Value x) { return minimum(maximum(x + 3.0, constant_like(x, 0)), constant_like(x, 6)); }
Value hardswish(Op& op) {
  Value x = opmath_tensor(op, "self");
  return x * relu6_of_shifted(x) / 6.0;
}
Value hardsigmoid(Op& op) { return relu6_of_shifted(opmath_tensor(op, "self")) / 6.0; }

Value hardtanh(Op& op) {
  Value x = op.tensor("self");
  return minimum(maximum(x, number(op, "min_val", x)), number(op, "max_val", x));
}

Value softplus(Op& op) {
  Value x = opmath_tensor(op, "self");
  Value scaled = op.scalar_equals("beta", 1) ? x : x * number(op, "beta", x);
  Value soft = log_plus_one(exponential(scaled));
  if (!op.scalar_equals("beta", 1)) soft = soft / number(op, "beta", x);
  return select(greater(scaled, number(op, "threshold", x)), x, soft);
}

Value softshrink(Op& op) {
  Value x = opmath_tensor(op, "self"), lambda = rounded_number(op, "lambd", "self", x);
  // In between x * 0: NaN stays and zeros keep their sign.
  return select(greater(x, lambda), x - lambda, select(less(x, negate(lambda)), x + lambda, x * 0.0));
}

Value hardshrink(Op& op) {
  Value x = op.tensor("self"), lambda = number(op, "lambd", x);
  Value inside = logical_and(greater_equal(x, negate(lambda)), less_equal(x, lambda));
  return select(inside, constant_like(x, 0), x);
}

Results log_sigmoid_forward(Op& op) {
  Value x = opmath_tensor(op, "self");
  Value buffer = exponential(negate(abs(x)));
  return {minimum(x, constant_like(x, 0)) - log_plus_one(buffer), buffer};
}

Value prelu_kernel(Op& op) {
  Value x = opmath_tensor(op, "self"), weight = op.tensor("weight", x.element());
  broadcast_all({&x, &weight});
  return select(greater(x, 0), x, x * weight);
}

struct Halves {
  Value first, second;
};
Halves halves(Value x, int64_t dim) {
  const int64_t n = x.dims().at(static_cast<size_t>(dim)) / 2;
  return {slice_dim(x, dim, 0, n), slice_dim(x, dim, n, 2 * n)};
}

Value glu(Op& op) {
  Value x = opmath_tensor(op, "self");
  auto [a, b] = halves(x, wrap_dim(op.integer("dim"), x.rank()));
  return a * logistic(b);
}

// d(a s(b)) = da s(b) + glu db (1 - s(b))
Value glu_jvp(Op& op) {
  Value x = opmath_tensor(op, "x");
  const int64_t dim = wrap_dim(op.integer("dim"), x.rank());
  auto [da, db] = halves(op.tensor("dx", x.element()), dim);
  Value s = logistic(halves(x, dim).second);
  Value y = op.tensor("glu", x.element());
  return convert(da * s + (db - s * db) * y, op.element("glu"));
}

// Uniform numbers in [0, 1) of a type, from the generator.
Value uniform(Op& op, ElementType t, const Dims& dims) {
  if (t == ElementType::kF64) {
    Value bits = op.random_bits(ElementType::kU64, dims);
    return convert(shift_right_logical(bits, constant_like(bits, 11)), t) * std::ldexp(1.0, -53);
  }
  Value bits = op.random_bits(ElementType::kU32, dims);
  return convert(shift_right_logical(bits, constant_like(bits, 8)), ElementType::kF32) * std::ldexp(1.0, -24);
}

Value rrelu_with_noise(Op& op) {
  Value x = opmath_tensor(op, "self");
  Value lower = number(op, "lower", x), upper = number(op, "upper", x);
  if (!op.boolean("training")) return select(less_equal(x, 0), x * ((lower + upper) * 0.5), x);
  Value slope = lower + uniform(op, x.element(), x.dims()) * (upper - lower);
  Value negative = less_equal(x, 0);
  op.write("noise", select(negative, slope, 1.0));
  return select(negative, x * slope, x);
}

}  // namespace

void register_activation(Registry& r) {
  r.add("relu", relu).like("self");
  r.add("threshold", threshold);
  r.add("leaky_relu", leaky_relu);
  r.add("elu", elu);
  r.add("gelu", gelu);
  r.add("silu", silu);
  r.add("mish", mish);
  r.add("hardswish", hardswish).like("self");
  r.add("hardsigmoid", hardsigmoid);
  r.add("hardtanh", hardtanh).like("self");
  r.add("softplus", softplus);
  r.add("softshrink", softshrink);
  r.add("hardshrink", hardshrink);
  r.add("log_sigmoid_forward", log_sigmoid_forward).like("self");
  r.add("_prelu_kernel", prelu_kernel).like("self");
  r.add("glu", glu);
  r.add("glu_jvp", glu_jvp).like("glu");
  r.add("rrelu_with_noise", rrelu_with_noise).like("self").mutates({"noise"});
  register_activation_backward(r);
}

}  // namespace torch_tpu::lowering
