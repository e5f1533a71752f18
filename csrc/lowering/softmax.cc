// softmax and log_softmax, forward and backward, with their safe and masked forms.
#include <limits>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// A dim's reductions, kept and spread back over the dims of x. A 0-dim value is one slice of one element.
struct Rows {
  Dims dims;
  Rows(const Op& op, int64_t dim, std::string_view arg) {
    const int64_t rank = op.rank(arg), d = wrap_dim(dim, rank);
    if (rank > 0) dims = {d};
  }
  Value spread(Value reduced, Value x) const { return broadcast_to(keep_dims(reduced, x.dims(), dims), x.dims()); }
  Value sum(Value x) const { return spread(reduce_sum(x, dims), x); }
  Value max(Value x) const { return spread(reduce_max(x, dims), x); }
};

Value softmax_of(Value x, const Rows& rows) {
  Value e = exponential(x - rows.max(x));
  return e / rows.sum(e);
}

Value softmax(Op& op) {
  const ElementType in = op.element("self"), type = opmath_type(in);
  Rows rows(op, op.integer("dim"), "self");
  Value y = softmax_of(op.tensor("self", type), rows);
  return convert(y, op.boolean("half_to_float") ? ElementType::kF32 : in);
}

Value log_softmax(Op& op) {
  const ElementType in = op.element("self"), type = opmath_type(in);
  Rows rows(op, op.integer("dim"), "self");
  Value x = op.tensor("self", type);
  Value shifted = x - rows.max(x);
  Value y = shifted - rows.spread(log(reduce_sum(exponential(shifted), rows.dims)), x);
  return convert(y, op.boolean("half_to_float") ? ElementType::kF32 : in);
}

Value softmax_backward(Op& op) {
  const ElementType type = opmath_type(op.element("grad_output"));
  Rows rows(op, op.integer("dim"), "grad_output");
  Value grad = op.tensor("grad_output", type), y = op.tensor("output", type);
  Value weighted = grad * y;
  return convert(weighted - y * rows.sum(weighted), op.dtype("input_dtype").value_or(op.element("grad_output")));
}

Value log_softmax_backward(Op& op) {
  const ElementType type = opmath_type(op.element("grad_output"));
  Rows rows(op, op.integer("dim"), "grad_output");
  Value grad = op.tensor("grad_output", type), y = op.tensor("output", type);
  return convert(grad - exponential(y) * rows.sum(grad), op.dtype("input_dtype").value_or(op.element("grad_output")));
}

// Rows of -inf only give zeros instead of NaN.
Value safe_softmax(Op& op) {
  const ElementType out = op.dtype("dtype").value_or(to_float(op, op.element("self")));
  Rows rows(op, op.integer("dim"), "self");
  Value x = op.tensor("self", out);
  x = convert(x, opmath_type(out));
  Value bottom = equal(x, constant_like(x, -std::numeric_limits<double>::infinity()));
  Value y = softmax_of(x, rows);
  Value all_bottom = rows.spread(reduce_and(bottom, rows.dims), x);
  return convert(select(all_bottom, constant_like(y, 0), y), out);
}

// The mask (true: left out) in the dims of the scores. Types: 0 = [L, L], 1 = [B, L] for scores [B, heads, L, L],
// 2 = the dims of the scores.
Value full_mask(const Op& op, const Dims& dims) {
  Value mask = op.tensor("mask", ElementType::kPred);
  if (mask.dims() == dims) return mask;
  if (op.has("mask_type") && op.integer("mask_type") == 1 && mask.rank() == 2 && dims.size() == 4)
    return broadcast_in_dim(mask, dims, {0, 3});
  return broadcast_to(mask, dims);
}

Value masked_softmax(Op& op) {
  const ElementType out = op.element("self");
  if (op.element("mask") != ElementType::kPred) throw CallError("Mask should be a boolean tensor");
  Rows rows(op, op.integer_or("dim", -1), "self");
  Value x = op.tensor("self", opmath_type(out));
  Value mask = full_mask(op, x.dims());
  Value zero = constant_like(x, 0);
  Value kept = select(mask, constant_like(x, -std::numeric_limits<double>::infinity()), x);
  Value e = select(mask, zero, exponential(x - rows.max(kept)));
  Value y = e / rows.sum(e);
  return convert(y, out);
}

Value masked_softmax_backward(Op& op) {
  const ElementType out = op.element("grad_output"), type = opmath_type(out);
  Rows rows(op, op.integer_or("dim", -1), "grad_output");
  Value grad = op.tensor("grad_output", type), y = op.tensor("output", type);
  Value mask = full_mask(op, grad.dims()), zero = constant_like(grad, 0);
  Value weighted = select(mask, zero, grad * y);
  return convert(select(mask, zero, weighted - y * rows.sum(weighted)), out);
}

}  // namespace

void register_softmax(Registry& r) {
  r.add("_softmax", softmax);
  r.add("_log_softmax", log_softmax);
  r.add("_softmax_backward_data", softmax_backward);
  r.add("_log_softmax_backward_data", log_softmax_backward);
  r.add("_safe_softmax", safe_softmax);
  r.add("_masked_softmax", masked_softmax);
  r.add("_masked_softmax_backward", masked_softmax_backward);
}

}  // namespace torch_tpu::lowering
