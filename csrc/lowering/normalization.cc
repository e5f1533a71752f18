// Layer, RMS and group norm. Batch norm is in batch_norm.cc.
#include "lowering/norm_helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// --- over the last dims: layer norm and RMS norm

struct Layer {
  Dims full;          // of the input
  Dims outer, inner;  // the dims kept and the dims normalized over
  Dims row;           // dims of mean and rstd: the inner ones are 1
  ElementType type;   // computed in
  Dims outer_sizes() const { return Dims(full.begin(), full.begin() + static_cast<std::ptrdiff_t>(outer.size())); }
  Dims inner_sizes() const { return Dims(full.begin() + static_cast<std::ptrdiff_t>(outer.size()), full.end()); }
  bool empty() const { return TensorType{type, full}.numel() == 0; }
};

Layer layer_of(const Op& op) {
  Layer l;
  l.full = op.dims("input");
  l.type = opmath_type(op.element("input"));
  const size_t inner = op.integers("normalized_shape").size();
  if (inner > l.full.size() || inner == 0)
    throw CallError("normalized_shape does not match the last dims of the input");
  l.row = l.full;
  for (size_t d = 0; d < l.full.size(); ++d) {
    const bool is_inner = d + inner >= l.full.size();
    (is_inner ? l.inner : l.outer).push_back(static_cast<int64_t>(d));
    if (is_inner) l.row[d] = 1;
  }
  if (l.inner_sizes() != op.integers("normalized_shape"))
    throw CallError("Given normalized_shape, the last dims of the input do not match it");
  return l;
}

Value rows(const Layer& l, Value v) { return spread(v, l.full, l.outer); }
Value per_element(const Layer& l, Value v) { return spread(v, l.full, l.inner); }

Results native_layer_norm(Op& op) {
  const Layer l = layer_of(op);
  const ElementType element = op.element("input"), saved = parameter_type(op, {"weight", "bias"});
  Value x = op.tensor("input", l.type);
  Value mean = mean_of(reduce_sum(x, l.inner), l.full, l.inner);
  Value centered = x - rows(l, mean);
  Value variance = mean_of(reduce_sum(centered * centered, l.inner), l.full, l.inner);
  Value rstd = inverse_sqrt(op, variance + like(variance, op.scalar("eps", l.type)));
  Value y = centered * rows(l, rstd);
  if (auto weight = op.optional_tensor("weight", l.type)) y = y * per_element(l, *weight);
  if (auto bias = op.optional_tensor("bias", l.type)) y = y + per_element(l, *bias);
  return {convert(y, element), convert(reshape(mean, l.row), saved), convert(reshape(rstd, l.row), saved)};
}

Results native_layer_norm_backward(Op& op) {
  const Layer l = layer_of(op);
  const std::vector<bool>& mask = op.booleans("output_mask");
  const ElementType parameter = parameter_type(op, {"weight", "bias"});
  Value x = op.tensor("input", l.type), dy = op.tensor("grad_out", l.type);
  Value mean = reshape(op.tensor("mean", l.type), l.outer_sizes());
  Value rstd = reshape(op.tensor("rstd", l.type), l.outer_sizes());
  Value xhat = (x - rows(l, mean)) * rows(l, rstd);
  Results results(3);
  if (mask[0]) {
    auto weight = op.optional_tensor("weight", l.type);
    Value g = weight ? dy * per_element(l, *weight) : dy;
    results[0] = convert(l.empty() ? g : normalized_gradient(g, xhat, rstd, l.inner), op.element("input"));
  }
  if (mask[1] && op.has("weight")) results[1] = convert(reduce_sum(dy * xhat, l.outer), parameter);
  if (mask[2] && (op.has("bias") || op.has("weight"))) results[2] = convert(reduce_sum(dy, l.outer), parameter);
  return results;
}

Results fused_rms_norm(Op& op) {
  const Layer l = layer_of(op);
  Value x = op.tensor("input", l.type);
  Value square = mean_of(reduce_sum(x * x, l.inner), l.full, l.inner);
  Value eps = op.has("eps") ? op.scalar("eps", l.type) : constant(op.builder(), l.type, epsilon(l.type));
  Value rstd = inverse_sqrt(op, square + like(square, eps));
  Value y = x * rows(l, rstd);
  if (auto weight = op.optional_tensor("weight", l.type)) y = y * per_element(l, *weight);
  return {convert(y, op.element("input")), reshape(rstd, l.row)};
}

Results fused_rms_norm_backward(Op& op) {
  const Layer l = layer_of(op);
  const std::vector<bool>& mask = op.booleans("output_mask");
  Value x = op.tensor("input", l.type), dy = op.tensor("grad_out", l.type);
  Value rstd = reshape(op.tensor("rstd", l.type), l.outer_sizes());
  Value xhat = x * rows(l, rstd);
  Results results(2);
  if (mask[0]) {
    auto weight = op.optional_tensor("weight", l.type);
    Value g = weight ? dy * per_element(l, *weight) : dy;
    if (!l.empty()) {
      Value mean_gx = mean_of(reduce_sum(g * xhat, l.inner), l.full, l.inner);
      g = rows(l, rstd) * (g - xhat * rows(l, mean_gx));
    }
    results[0] = convert(g, op.element("input"));
  }
  if (mask[1] && op.has("weight")) results[1] = convert(reduce_sum(dy * xhat, l.outer), op.element("weight"));
  return results;
}

// --- group norm, on [N, groups, channels of a group, HxW]

struct Groups {
  Dims full, statistics;  // the four dims; [N, groups]
  ElementType type;
  Value spread_statistics(Value v) const { return spread(reshape(v, statistics), full, {0, 1}); }
  Value spread_channels(Value v) const { return spread(reshape(v, {full[1], full[2]}), full, {1, 2}); }
};

const Dims kGroupDims{2, 3};

Groups groups_of(const Op& op) {
  const int64_t n = op.integer("N"), c = op.integer("C"), pixels = op.integer("HxW"), group = op.integer("group");
  if (group < 1 || c % group != 0)
    throw CallError("Expected number of channels in input to be divisible by num_groups, but got input of " +
                    std::to_string(c) + " channels and num_groups=" + std::to_string(group));
  return {{n, group, c / group, pixels}, {n, group}, opmath_type(op.element("input"))};
}

Results native_group_norm(Op& op) {
  const Groups g = groups_of(op);
  const ElementType saved = parameter_type(op, {"weight", "bias"});
  Value x = reshape(op.tensor("input", g.type), g.full);
  Value mean = mean_of(reduce_sum(x, kGroupDims), g.full, kGroupDims);
  Value centered = x - g.spread_statistics(mean);
  Value variance = mean_of(reduce_sum(centered * centered, kGroupDims), g.full, kGroupDims);
  Value rstd = inverse_sqrt(op, variance + like(variance, op.scalar("eps", g.type)));
  Value y = centered * g.spread_statistics(rstd);
  if (auto weight = op.optional_tensor("weight", g.type)) y = y * g.spread_channels(*weight);
  if (auto bias = op.optional_tensor("bias", g.type)) y = y + g.spread_channels(*bias);
  return {convert(reshape(y, op.dims("input")), op.element("input")), convert(mean, saved), convert(rstd, saved)};
}

// One pass over the pixels gives sums a channel of each sample; all else is made from these.
Results native_group_norm_backward(Op& op) {
  const Groups g = groups_of(op);
  const std::vector<bool>& mask = op.booleans("output_mask");
  // Without a weight the bias is not known here; statistics have the parameters' type.
  const ElementType parameter = parameter_type(op, {"weight", "mean"});
  Value x = reshape(op.tensor("input", g.type), g.full), dy = reshape(op.tensor("grad_out", g.type), g.full);
  Value rstd = g.spread_statistics(op.tensor("rstd", g.type));
  Value xhat = (x - g.spread_statistics(op.tensor("mean", g.type))) * rstd;
  Value sum_dy = reduce_sum(dy, {3}), sum_dyx = reduce_sum(dy * xhat, {3});  // [N, groups, channels]
  Results results(3);
  if (mask[0]) {
    auto weight = op.optional_tensor("weight", g.type);
    auto weighted = [&](Value v) {
      return weight ? v * spread(reshape(*weight, {g.full[1], g.full[2]}), v.dims(), {1, 2}) : v;
    };
    Value grad = weight ? dy * g.spread_channels(*weight) : dy;
    if (x.numel() != 0) {
      Value mean_g = mean_of(reduce_sum(weighted(sum_dy), {2}), g.full, kGroupDims);
      Value mean_gx = mean_of(reduce_sum(weighted(sum_dyx), {2}), g.full, kGroupDims);
      grad = rstd * (grad - g.spread_statistics(mean_g) - xhat * g.spread_statistics(mean_gx));
    }
    results[0] = convert(reshape(grad, op.dims("input")), op.element("input"));
  }
  const Dims channels{g.full[1] * g.full[2]};
  if (mask[1]) results[1] = convert(reshape(reduce_sum(sum_dyx, {0}), channels), parameter);
  if (mask[2]) results[2] = convert(reshape(reduce_sum(sum_dy, {0}), channels), parameter);
  return results;
}

// --- weight norm: w = v * g / ||v||, with one norm for each index of `dim`

Results weight_norm_interface(Op& op) {
  const ElementType element = op.element("v"), type = opmath_type(element);
  Value v = op.tensor("v", type), g = op.tensor("g", type);
  const int64_t dim = wrap_dim(op.integer("dim"), v.rank());
  const Dims reduced = other_dims(v.rank(), {dim});
  Value norm = sqrt(reduce_sum(v * v, reduced));
  Value w = v * spread(reshape(g, norm.dims()) / norm, v.dims(), {dim});
  return {convert(w, element), reshape(norm, op.dims("g"))};
}

Results weight_norm_interface_backward(Op& op) {
  const ElementType element = op.element("saved_v"), type = opmath_type(element);
  Value v = op.tensor("saved_v", type), dw = op.tensor("grad_w", type);
  const int64_t dim = wrap_dim(op.integer("dim"), v.rank());
  const Dims reduced = other_dims(v.rank(), {dim}), size{v.dim(static_cast<int>(dim))};
  Value g = reshape(op.tensor("saved_g", type), size), norm = reshape(op.tensor("saved_norms", type), size);
  Value dot = reduce_sum(dw * v, reduced);
  auto all = [&](Value x) { return spread(x, v.dims(), {dim}); };
  Value dv = all(g / norm) * (dw - v * all(dot / (norm * norm)));
  return {convert(dv, element), convert(reshape(dot / norm, op.dims("saved_g")), op.element("saved_g"))};
}

}  // namespace

void register_normalization(Registry& r) {
  r.add("native_layer_norm", native_layer_norm).own_results();
  r.add("native_layer_norm_backward", native_layer_norm_backward);
  // Without a kernel of ours rms_norm would decompose: with one, PyTorch calls it and its backward as on CUDA.
  r.add("_fused_rms_norm", fused_rms_norm);
  r.add("_fused_rms_norm_backward", fused_rms_norm_backward);
  r.add("native_group_norm", native_group_norm).own_results();
  r.add("native_group_norm_backward", native_group_norm_backward);
  r.add("_weight_norm_interface", weight_norm_interface);
  r.add("_weight_norm_interface_backward", weight_norm_interface_backward);
  register_batch_norm(r);
}

}  // namespace torch_tpu::lowering
