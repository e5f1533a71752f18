// Batch norm in its many overloads: statistics over all dims but dim 1.
#include "lowering/norm_helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

struct Batch {
  Dims full, reduced;
  ElementType type;       // computed in
  ElementType parameter;  // of weight, bias and statistics
  int64_t count = 1;      // elements a channel
  Value spread_channels(Value v) const { return spread(v, full, {1}); }
};

Batch batch_of(const Op& op) {
  Batch b;
  b.full = op.dims("input");
  if (b.full.size() < 2) throw CallError("batch_norm: expected an input of at least 2 dims");
  b.reduced = other_dims(static_cast<int64_t>(b.full.size()), {1});
  b.type = opmath_type(op.element("input"));
  b.parameter = parameter_type(op, {"weight", "bias", "running_mean", "running_var"});
  for (int64_t d : b.reduced) b.count *= b.full[static_cast<size_t>(d)];
  return b;
}

struct BatchNorm {
  Value output;
  Value save_mean, save_invstd;     // empty in evaluation
  Value running_mean, running_var;  // updated, where given
};

// The running statistic `arg` after a step towards `now`.
Value moved_statistic(const Op& op, std::string_view arg, Value now, ElementType type) {
  Value old = op.tensor(arg, type), momentum = like(now, op.scalar("momentum", type));
  return convert(momentum * now + (constant_like(now, 1) - momentum) * old, op.element(arg));
}

BatchNorm normalize(Op& op, bool training) {
  const Batch b = batch_of(op);
  const bool has_mean = op.has("running_mean"), has_var = op.has("running_var");
  Value x = op.tensor("input", b.type), mean, invstd;
  BatchNorm result;
  auto eps = [&](Value v) { return like(v, op.scalar("eps", b.type)); };
  if (training) {
    mean = mean_of(reduce_sum(x, b.reduced), b.full, b.reduced);
    Value centered = x - b.spread_channels(mean);
    Value squares = reduce_sum(centered * centered, b.reduced);
    Value variance = mean_of(squares, b.full, b.reduced);
    invstd = inverse_sqrt(op, variance + eps(variance));
    result.save_mean = convert(mean, b.parameter);
    result.save_invstd = convert(invstd, b.parameter);
    if (has_mean) result.running_mean = moved_statistic(op, "running_mean", mean, b.type);
    if (has_var)
      result.running_var =
          moved_statistic(op, "running_var", divide(squares, constant_like(squares, b.count - 1)), b.type);
  } else {
    if (!has_mean || !has_var) throw CallError("running_mean and running_var must be defined in evaluation mode");
    mean = op.tensor("running_mean", b.type);
    Value variance = op.tensor("running_var", b.type);
    invstd = inverse_sqrt(op, variance + eps(variance));
    result.save_mean = result.save_invstd = constant(op.builder(), b.parameter, 0, {0});
    result.running_mean = op.tensor("running_mean");
    result.running_var = op.tensor("running_var");
  }
  auto weight = op.optional_tensor("weight", b.type), bias = op.optional_tensor("bias", b.type);
  Value scale = weight ? invstd * *weight : invstd;
  Value y = (x - b.spread_channels(mean)) * b.spread_channels(scale);
  if (bias) y = y + b.spread_channels(*bias);
  result.output = convert(y, op.element("input"));
  return result;
}

// Running statistics are written although the schema of native_batch_norm does not say so.
void write_statistics(Op& op, const BatchNorm& n) {
  if (n.running_mean.defined()) op.write("running_mean", n.running_mean);
  if (n.running_var.defined()) op.write("running_var", n.running_var);
}

Value no_reserve(Op& op) { return constant(op.builder(), ElementType::kU8, 0, {0}); }

Results native_batch_norm(Op& op) {
  const bool training = op.boolean("training");
  BatchNorm n = normalize(op, training);
  if (training) write_statistics(op, n);
  return {n.output, n.save_mean, n.save_invstd};
}

Results native_batch_norm_without_statistics(Op& op) {
  BatchNorm n = normalize(op, op.boolean("training"));
  return {n.output, n.save_mean, n.save_invstd};
}

Results native_batch_norm_functional(Op& op) {
  BatchNorm n = normalize(op, op.boolean("training"));
  return {n.output, n.save_mean, n.save_invstd, n.running_mean, n.running_var};
}

Results batch_norm_with_update(Op& op) {
  BatchNorm n = normalize(op, true);
  write_statistics(op, n);
  return {n.output, n.save_mean, n.save_invstd, no_reserve(op)};
}

Results batch_norm_with_update_functional(Op& op) {
  BatchNorm n = normalize(op, true);
  return {n.output, n.save_mean, n.save_invstd, no_reserve(op), n.running_mean, n.running_var};
}

Results batch_norm_no_update(Op& op) {
  BatchNorm n = normalize(op, false);
  return {n.output, n.save_mean, n.save_invstd, no_reserve(op)};
}

// Mean and variance of the batch, and the running ones moved towards them.
Results batch_norm_update_stats(Op& op) {
  const Batch b = batch_of(op);
  Value x = op.tensor("input", b.type);
  Value mean = mean_of(reduce_sum(x, b.reduced), b.full, b.reduced);
  Value centered = x - b.spread_channels(mean);
  Value squares = reduce_sum(centered * centered, b.reduced);
  if (op.has("running_mean")) op.write("running_mean", moved_statistic(op, "running_mean", mean, b.type));
  if (op.has("running_var")) {
    Value unbiased = divide(squares, constant_like(squares, b.count - 1));
    op.write("running_var", moved_statistic(op, "running_var", unbiased, b.type));
  }
  return {convert(mean, b.parameter), convert(mean_of(squares, b.full, b.reduced), b.parameter)};
}

Results gradient(Op& op, bool train, std::string_view save_invstd) {
  const Batch b = batch_of(op);
  const std::vector<bool>& mask = op.booleans("output_mask");
  Value x = op.tensor("input", b.type), dy = op.tensor("grad_out", b.type), mean, invstd;
  if (train) {
    mean = op.tensor("save_mean", b.type);
    invstd = op.tensor(save_invstd, b.type);
  } else {
    mean = op.tensor("running_mean", b.type);
    Value variance = op.tensor("running_var", b.type);
    invstd = inverse_sqrt(op, variance + like(variance, op.scalar("eps", b.type)));
  }
  Value centered = x - b.spread_channels(mean);
  Value sum_dy = reduce_sum(dy, b.reduced);
  Value sum_dyx = reduce_sum(dy * centered, b.reduced) * invstd;  // of dy * xhat
  Results results(3);
  if (mask[0]) {
    auto weight = op.optional_tensor("weight", b.type);
    Value scale = weight ? invstd * *weight : invstd;
    Value g = dy;
    if (train) {
      Value mean_dy = mean_of(sum_dy, b.full, b.reduced);
      Value slope = mean_of(sum_dyx * invstd, b.full, b.reduced);
      g = dy - b.spread_channels(mean_dy) - centered * b.spread_channels(slope);
    }
    results[0] = convert(g * b.spread_channels(scale), op.element("input"));
  }
  if (mask[1]) results[1] = convert(sum_dyx, b.parameter);
  if (mask[2]) results[2] = convert(sum_dy, b.parameter);
  return results;
}

Results native_batch_norm_backward(Op& op) { return gradient(op, op.boolean("train"), "save_invstd"); }
Results batch_norm_backward(Op& op) { return gradient(op, op.boolean("update"), "save_var"); }

}  // namespace

void register_batch_norm(Registry& r) {
  r.add("native_batch_norm", native_batch_norm).mutates({"running_mean", "running_var"}).own_results();
  r.add("_native_batch_norm_legit", native_batch_norm).mutates({"running_mean", "running_var"}).own_results();
  r.add("_native_batch_norm_legit.no_stats", native_batch_norm_without_statistics).own_results();
  r.add("_native_batch_norm_legit_functional", native_batch_norm_functional).own_results();
  r.add("_batch_norm_with_update", batch_norm_with_update).mutates({"running_mean", "running_var"}).own_results();
  r.add("_batch_norm_with_update_functional", batch_norm_with_update_functional).own_results();
  r.add("_batch_norm_no_update", batch_norm_no_update).own_results();
  r.add("batch_norm_update_stats", batch_norm_update_stats).mutates({"running_mean", "running_var"});
  r.add("native_batch_norm_backward", native_batch_norm_backward);
  r.add("batch_norm_backward", batch_norm_backward);
}

}  // namespace torch_tpu::lowering
