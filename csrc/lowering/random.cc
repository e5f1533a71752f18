// Random fills, dropout and the random factories. The numbers are not torch CPU's own (another generator), the
// distributions are: same supports, same resolution, same treatment of the bounds.
#include <cmath>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/random_helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// Complex samples are two real ones: a last dim of 2, taken apart.
Dims parts_dims(ElementType type, Dims dims) {
  if (is_complex(type)) dims.push_back(2);
  return dims;
}

Value join_parts(Value parts, ElementType type) {
  if (!is_complex(type)) return parts;
  const int64_t last = parts.rank() - 1;
  Dims dims = parts.dims();
  dims.pop_back();
  return convert(complex(reshape(slice_dim(parts, last, 0, 1), dims), reshape(slice_dim(parts, last, 1, 2), dims)),
                 type);
}

// --- floating distributions; scalars are rank 0

Value uniform_values(const Op& op, ElementType type, const Dims& dims, Value from, Value to) {
  const ElementType part = real_type(type), compute = sampling_type(type);
  const Dims shape = parts_dims(type, dims);
  Value unit = half_open_unit(draw_bits(op, bits_type(compute), shape), significand_bits(part));
  // Bounds are rounded to the tensor's type first, as ATen does.
  Value low = convert(convert(from, part), compute), high = convert(convert(to, part), compute);
  Value x = unit * broadcast_to(high - low, shape) + broadcast_to(low, shape);
  Value rounded = convert(x, part);
  // What rounds up to the open bound goes to the closed one.
  Value bound = broadcast_to(convert(to, part), shape);
  rounded = select(greater_equal(rounded, bound), broadcast_to(convert(from, part), shape), rounded);
  return join_parts(rounded, type);
}

Value standard_normal(const Op& op, ElementType type, const Dims& dims) {
  const ElementType compute = sampling_type(type);
  const Dims shape = parts_dims(type, dims);
  const int64_t draws = normal_draws(TensorType{compute, shape}.numel());
  Value x = normal_from_bits(draw_bits(op, bits_type(compute), {draws}), shape);
  // Both parts of a complex number share its variance.
  if (is_complex(type)) return join_parts(x * constant_like(x, std::numbers::sqrt2 / 2), complex_type(compute));
  return x;
}

Value normal_values(const Op& op, ElementType type, const Dims& dims, Value mean, Value std) {
  Value z = standard_normal(op, type, dims);
  return convert(z * broadcast_to(convert(std, z.element()), dims) + broadcast_to(convert(mean, z.element()), dims),
                 type);
}

Value uniform_(Op& op) {
  const ElementType compute = sampling_type(op.element("self"));
  return uniform_values(op, op.element("self"), op.dims("self"), op.scalar("from", compute), op.scalar("to", compute));
}

Value normal_(Op& op) {
  const ElementType compute = sampling_type(op.element("self"));
  return normal_values(op, op.element("self"), op.dims("self"), op.scalar("mean", compute), op.scalar("std", compute));
}

// normal.Tensor_float, .float_Tensor, .Tensor_Tensor: the result has the mean's type where that is a tensor.
Value normal_of(Op& op) {
  const bool mean_tensor = op.is_tensor("mean"), std_tensor = op.is_tensor("std");
  const ElementType type = op.result_known() ? op.result_element() : op.element(mean_tensor ? "mean" : "std");
  const ElementType compute = is_complex(type) ? complex_type(sampling_type(type)) : sampling_type(type);
  Value mean = operand(op, "mean", compute), std = operand(op, "std", compute);
  const Dims dims = broadcast_dims(mean_tensor ? op.dims("mean") : Dims{}, std_tensor ? op.dims("std") : Dims{});
  return normal_values(op, type, dims, mean, std);
}

Value exponential_(Op& op) {
  const ElementType compute = sampling_type(op.element("self"));
  Value x = exponential_from_bits(draw_bits(op, bits_type(compute), op.dims("self")));
  return convert(x / like(x, op.scalar("lambd", compute)), op.element("self"));
}

Value log_normal_(Op& op) {
  const ElementType compute = sampling_type(op.element("self"));
  Value x = normal_values(op, compute, op.dims("self"), op.scalar("mean", compute), op.scalar("std", compute));
  return convert(exponential(x), op.element("self"));
}

Value cauchy_(Op& op) {
  const ElementType compute = sampling_type(op.element("self"));
  Value u = positive_unit(draw_bits(op, bits_type(compute), op.dims("self")));
  // tan's poles are kept out, as in ATen.
  const double eps = epsilon(compute);
  u = stablehlo::clamp(constant(op.builder(), compute, eps), u, constant(op.builder(), compute, 1 - eps));
  Value t = stablehlo::tan((u - constant_like(u, 0.5)) * constant_like(u, std::numbers::pi));
  return convert(t * like(t, op.scalar("sigma", compute)) + like(t, op.scalar("median", compute)), op.element("self"));
}

// Trials until the first success: 1 + floor(log(u) / log(1 - p)).
Value geometric_(Op& op) {
  const ElementType type = op.element("self");
  // Integers beyond 2^24 need f64.
  const ElementType compute = is_integer(type) && byte_size(type) > 2 ? ElementType::kF64 : sampling_type(type);
  Value u = positive_unit(draw_bits(op, bits_type(compute), op.dims("self")));
  Value log_miss = convert(log_plus_one(negate(op.scalar("p", ElementType::kF64))), compute);
  Value x = stablehlo::ceil(stablehlo::log(u) / like(u, log_miss));
  return convert(maximum(x, constant_like(x, 1)), type);
}

// --- integers

// The high 64 bits of x * y, by 32-bit halves: maps random bits to a range without a 64-bit division.
Value multiply_high(Value x, Value y) {
  Value mask = constant_like(x, int64_t{0xFFFFFFFF}), by32 = constant_like(x, 32);
  auto low = [&](Value v) { return logical_and(v, mask); };
  auto high = [&](Value v) { return shift_right_logical(v, by32); };
  Value x0 = low(x), x1 = high(x), y0 = low(y), y1 = high(y);
  Value p01 = x0 * y1, p10 = x1 * y0;
  Value middle = high(x0 * y0) + low(p01) + low(p10);
  return x1 * y1 + high(p01) + high(p10) + high(middle);
}

// Integers of [from, from + range): from is s64, range ui64 with 0 for 2^64; both rank 0.
Value integer_values(const Op& op, ElementType type, const Dims& dims, Value from, Value range) {
  if ((is_integer(type) || is_bool(type)) && byte_size(type) <= 2) {  // range <= 2^16
    Value bits = draw_bits(op, ElementType::kU32, dims);
    Value r = like(bits, convert(range, ElementType::kU32)), by16 = constant_like(bits, 16);
    Value high = shift_right_logical(bits, by16), low = logical_and(bits, constant_like(bits, 0xFFFF));
    Value offset = shift_right_logical(high * r + shift_right_logical(low * r, by16), by16);
    Value x = convert(offset, ElementType::kS32) + broadcast_to(convert(from, ElementType::kS32), dims);
    return convert(x, type);
  }
  Value bits = draw_bits(op, ElementType::kU64, dims);
  Value r = like(bits, range);
  Value offset = select(equal(range, constant_like(range, 0)), bits, multiply_high(bits, r));
  Value x = convert(offset, ElementType::kS64) + broadcast_to(from, dims);
  if (!is_floating(type)) return convert(x, type);
  // A float type may round the largest numbers up to the bound itself.
  Value rounded = convert(x, type), end = broadcast_to(from + convert(range, ElementType::kS64), dims);
  Value outside = greater_equal(convert(rounded, ElementType::kS64), end);
  Value wraps = equal(range, constant_like(range, 0));
  outside = logical_and(outside, broadcast_to(logical_not(wraps), dims));
  return select(outside, broadcast_to(convert(from, type), dims), rounded);
}

// The largest number that random_() and random_(from) give: the type's, or the last of consecutive integers in a float.
int64_t largest_random(ElementType type) {
  if (is_floating(type)) return int64_t{1} << significand_bits(type);
  return static_cast<int64_t>(integer_max(type));
}

Value random_(Op& op) {
  const ElementType type = op.element("self");
  Value zero = constant(op.builder(), ElementType::kS64, 0);
  // For ui64 the count wraps to 0, which stands for 2^64.
  const uint64_t count = static_cast<uint64_t>(largest_random(type)) + 1;
  return integer_values(op, type, op.dims("self"), zero,
                        constant(op.builder(), ElementType::kU64, static_cast<int64_t>(count)));
}

Value random_from(Op& op) {
  const ElementType type = op.element("self");
  Value from = op.has("from") ? op.scalar("from", ElementType::kS64) : constant(op.builder(), ElementType::kS64, 0);
  Value end;
  if (op.has("to")) {
    end = op.scalar("to", ElementType::kS64);
  } else {  // one past the largest; the sum wraps for s64, the difference below is right again
    const uint64_t past = static_cast<uint64_t>(largest_random(type)) + 1;
    end = constant(op.builder(), ElementType::kS64, static_cast<int64_t>(past));
  }
  return integer_values(op, type, op.dims("self"), from, convert(end - from, ElementType::kU64));
}

Value random_to(Op& op) {
  Value range = convert(op.scalar("to", ElementType::kS64), ElementType::kU64);
  return integer_values(op, op.element("self"), op.dims("self"), constant(op.builder(), ElementType::kS64, 0), range);
}

// --- bernoulli, dropout

Value bernoulli_of(const Op& op, Value p, const Dims& dims) {
  const ElementType compute = sampling_type(p.element());
  Value u = half_open_unit(draw_bits(op, bits_type(compute), dims), significand_bits(compute));
  return less(u, broadcast_to(convert(p, compute), dims));
}

Value bernoulli(Op& op) { return convert(bernoulli_of(op, op.tensor("self"), op.dims("self")), op.element("self")); }

Value bernoulli_tensor(Op& op) {
  return convert(bernoulli_of(op, op.tensor("p"), op.dims("self")), op.element("self"));
}

// bernoulli_.float and bernoulli.p
Value bernoulli_float(Op& op) {
  Value bits = draw_bits(op, ElementType::kU32, op.dims("self"));
  return convert(bernoulli_from_bits(bits, op.scalar("p", ElementType::kF64)), op.element("self"));
}

// x * mask * scale with 0 * inf = NaN as the multiplication gives it.
Value masked_scale(Value x, Value mask, Value scale, ElementType out) {
  Value wide = convert(x, opmath_type(out));
  Value s = convert(scale, wide.element());
  return convert(wide * select(mask, like(wide, s), constant_like(wide, 0)), out);
}

Results native_dropout(Op& op) {
  Value x = op.tensor("input");
  if (op.has("train") && !op.boolean("train")) return {x, constant(op.builder(), ElementType::kPred, true, x.dims())};
  Value p = op.scalar("p", ElementType::kF64);
  Value keep = constant_like(p, 1.0) - p, zero = constant_like(p, 0.0);
  Value scale = select(equal(keep, zero), zero, constant_like(p, 1.0) / keep);
  Value mask = bernoulli_from_bits(draw_bits(op, ElementType::kU32, x.dims()), keep);
  return {masked_scale(x, mask, scale, x.element()), mask};
}

Value native_dropout_backward(Op& op) {
  Value grad = op.tensor("grad_output");
  Value mask = like(grad, op.tensor("mask", ElementType::kPred));
  return masked_scale(grad, mask, op.scalar("scale", ElementType::kF64), to_float(op, grad.element()));
}

// --- factories that the bridge calls

ElementType factory_type(const Op& op) { return op.dtype("dtype").value_or(op.numerics().default_float); }

Value rand(Op& op) {
  const ElementType type = factory_type(op), compute = sampling_type(type);
  return uniform_values(op, type, op.integers("size"), constant(op.builder(), compute, 0.0),
                        constant(op.builder(), compute, 1.0));
}

Value randn(Op& op) {
  const ElementType type = factory_type(op);
  return convert(standard_normal(op, type, op.integers("size")), type);
}

Value randint(Op& op) {
  Value low = op.scalar("low", ElementType::kS64), high = op.scalar("high", ElementType::kS64);
  return integer_values(op, op.dtype("dtype").value_or(ElementType::kS64), op.integers("size"), low,
                        convert(high - low, ElementType::kU64));
}

Value randperm(Op& op) {
  const int64_t n = op.integer("n");
  const ElementType type = op.dtype("dtype").value_or(ElementType::kS64);
  const ElementType index_type = n <= int64_t{0x7FFFFFFF} ? ElementType::kS32 : ElementType::kS64;
  Value index = iota(op.builder(), index_type, {n}, 0);
  if (n < 2) return convert(index, type);
  // 64-bit keys: two equal ones, which would favour an order, are out of reach.
  const Value keyed[2] = {op.random_bits(ElementType::kU64, {n}), index};
  return convert(sort(keyed, 0, true, [](std::span<const Value> a) { return less(a[0], a[1]); })[1], type);
}

}  // namespace

void register_random(Registry& r) {
  r.add("uniform_", uniform_);
  r.add("normal_", normal_);
  r.add("normal.Tensor_float", normal_of);
  r.add("normal.float_Tensor", normal_of);
  r.add("normal.Tensor_Tensor", normal_of);
  r.add("exponential_", exponential_);
  r.add("log_normal_", log_normal_);
  r.add("cauchy_", cauchy_);
  r.add("geometric_", geometric_);
  r.add("random_", random_);
  r.add("random_.to", random_to).runtime({"to"});
  r.add("random_.from", random_from).runtime({"from", "to"});
  r.add("bernoulli", bernoulli).like("self");
  r.add("bernoulli.p", bernoulli_float).like("self");
  r.add("bernoulli_.Tensor", bernoulli_tensor);
  r.add("bernoulli_.float", bernoulli_float);
  r.add("native_dropout", native_dropout).like("input");
  r.add("native_dropout_backward", native_dropout_backward).like("grad_output");
  r.add_internal("tpu.rand", rand);
  r.add_internal("tpu.randn", randn);
  r.add_internal("tpu.randint", randint);
  r.add_internal("tpu.randperm", randperm);
  register_random_sampling(r);
}

}  // namespace torch_tpu::lowering
