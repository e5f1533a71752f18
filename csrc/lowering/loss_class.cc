// Losses over classes: negative log likelihood, multi-class and multi-label margins, and their backwards.
#include "lowering/helpers.h"
#include "lowering/loss.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// Scores [N, C, S] (S: the product of the spatial dims), targets [N, S], and what is known of each target.
struct Classes {
  ElementType out, type;
  int64_t n = 1, classes = 1, spatial = 1;
  Value target;  // in range, s64 [N, S]
  Value counts;  // bool [N, S]: not ignored and in range
  Dims target_dims;

  Classes(Op& op, std::optional<int64_t> ignore_index) : out(op.element("self")), type(opmath_type(out)) {
    const Dims& dims = op.dims("self");
    if (dims.size() < 2) {
      classes = dims.empty() ? 1 : dims[0];
    } else {
      n = dims.at(0);
      classes = dims.at(1);
      for (size_t i = 2; i < dims.size(); ++i) spatial *= dims[i];
    }
    target_dims = op.dims("target");
    target = reshape(op.tensor("target", ElementType::kS64), {n, spatial});
    Value zero = constant_like(target, 0), last = constant_like(target, classes - 1);
    Value bad = logical_or(less(target, zero), greater(target, last));
    counts = constant(op.builder(), ElementType::kPred, true, target.dims());
    if (ignore_index) counts = not_equal(target, constant_like(target, *ignore_index));
    bad = logical_and(bad, counts);
    if (target.numel() > 0) op.context().report_out_of_bounds(reduce_or(bad, {0, 1}));
    counts = logical_and(counts, logical_not(bad));
    target = select(counts, target, zero);
  }

  Value scores(const Op& op) const { return reshape(op.tensor("self", type), {n, classes, spatial}); }
  // [N, S] as [N, C, S].
  Value spread(Value v) const { return broadcast_in_dim(v, {n, classes, spatial}, {0, 2}); }
  // Scores at the targets, [N, S].
  Value pick(Value scores) const {
    if (target.numel() == 0 || classes == 0) return constant(scores.builder(), scores.element(), 0, target.dims());
    Value index =
        (iota(scores.builder(), ElementType::kS64, target.dims(), 0) * constant_like(target, classes) + target) *
            constant_like(target, spatial) +
        iota(scores.builder(), ElementType::kS64, target.dims(), 1);
    return take(flatten(scores), index, 0);
  }
  // Class weights at the targets, 0 where ignored.
  Value weights(const Op& op) const {
    Value zero = constant(op.builder(), type, 0, target.dims()), one = constant(op.builder(), type, 1, target.dims());
    if (!op.has("weight")) return select(counts, one, zero);
    if (classes == 0) return zero;
    return select(counts, take(op.tensor("weight", type), target, 0), zero);
  }
  // Where the class is the target, [N, C, S].
  Value is_target() const {
    Value t = spread(target);
    return equal(iota(t.builder(), ElementType::kS64, t.dims(), 1), t);
  }
};

// (loss, total weight); the total is 0 for unreduced losses of a batch.
Results nll_loss_forward(Op& op) {
  Classes c(op, op.integer("ignore_index"));
  const Reduction reduction = reduction_of(op);
  Value weights = c.weights(op);
  // Ignored scores may be infinite: they are masked, not multiplied by 0.
  Value losses = select(c.counts, negate(c.pick(c.scores(op)) * weights), constant_like(weights, 0));
  if (reduction == Reduction::kNone && op.rank("self") > 1)
    return {convert(reshape(losses, c.target_dims), c.out), constant(op.builder(), c.out, 0)};
  Value loss = reduce_sum(losses, {0, 1}), total = reduce_sum(weights, {0, 1});
  if (reduction == Reduction::kMean) loss = loss / total;
  return {convert(loss, c.out), convert(total, c.out)};
}

Value nll_loss_backward(Op& op) {
  Classes c(op, op.integer("ignore_index"));
  const Reduction reduction = reduction_of(op);
  if (op.rank("self") == 1 && op.rank("target") != 0)
    throw CallError("size mismatch (got input: " + bracket_list(op.dims("self")) +
                    ", target: " + bracket_list(op.dims("target")) + ")");
  Value grad = op.tensor("grad_output", c.type);
  if (reduction == Reduction::kMean) grad = grad / op.tensor("total_weight", c.type);
  grad = grad.rank() == 0 || grad.numel() == 1 ? broadcast_to(reshape(grad, {}), {c.n, c.spatial})
                                               : reshape(grad, {c.n, c.spatial});
  Value weights = c.weights(op);
  Value at_target = select(c.counts, negate(grad * weights), constant_like(grad, 0));
  Value spread = c.spread(at_target);
  Value result = select(c.is_target(), spread, constant_like(spread, 0));
  return convert(reshape(result, op.dims("self")), c.out);
}

// --- margins

// max(0, margin - x[target] + x[j]) for all j but the target, [N, C], with the mask of those that count.
struct Margins {
  Classes c;
  Value z, positive;
  Margins(Op& op) : c(op, std::nullopt) {
    Value x = c.scores(op);
    Value margin = like(x, op.scalar("margin", c.type));
    z = margin - c.spread(c.pick(x)) + x;
    positive = logical_and(logical_not(c.is_target()), greater(z, constant_like(z, 0)));
    // Samples with a target out of range: nothing is read of them.
    positive = logical_and(positive, c.spread(c.counts));
  }
  // The class weight of each sample's target, over the number of classes.
  Value scale(const Op& op) const {
    Value w = c.spread(c.weights(op));
    return w / constant_like(w, c.classes);
  }
};

int margin_exponent(const Op& op) {
  const double p = op.constant_real("p");
  if (p != 1 && p != 2) throw CallError("multi_margin_loss: Invalid p, expected 1 or 2 but got " + std::to_string(p));
  return static_cast<int>(p);
}

Value multi_margin_loss(Op& op) {
  const int p = margin_exponent(op);
  Margins m(op);
  Value terms = (p == 1 ? m.z : m.z * m.z) * m.scale(op);
  terms = select(m.positive, terms, constant_like(terms, 0));
  Value losses = reduce_sum(terms, {1, 2});  // [N]
  Value loss = reduce_loss(losses, reduction_of(op));
  if (op.rank("target") == 0) loss = reshape(loss, {});
  return convert(loss, m.c.out);
}

Value multi_margin_loss_backward(Op& op) {
  const int p = margin_exponent(op);
  Margins m(op);
  Value h = m.scale(op);
  if (p == 2) h = constant_like(h, 2) * h * m.z;
  h = select(m.positive, h, constant_like(h, 0));
  if (reduction_of(op) == Reduction::kMean) h = h / constant_like(h, m.c.n);
  Value at_target = negate(reduce_sum(h, {1}));  // [N, 1]
  h = select(m.c.is_target(), m.c.spread(at_target), h);
  Value grad = op.tensor("grad_output", m.c.type);
  grad = grad.numel() == 1 ? broadcast_to(reshape(grad, {}), h.dims()) : m.c.spread(reshape(grad, {m.c.n, 1}));
  return convert(reshape(h * grad, op.dims("self")), m.c.out);
}

// Targets [N, C]: class indices up to the first -1.
struct Labels {
  ElementType out, type;
  int64_t n, classes;
  Value target;  // in range, s64 [N, C]
  Value valid;   // bool [N, C]: before the first -1
  Labels(Op& op) : out(op.element("self")), type(opmath_type(out)) {
    const Dims& dims = op.dims("self");
    classes = dims.empty() ? 1 : dims.back();
    n = dims.size() < 2 ? 1 : dims[0];
    target = reshape(op.tensor("target", ElementType::kS64), {n, classes});
    Value zero = constant_like(target, 0), position = iota(op.builder(), ElementType::kS64, target.dims(), 1);
    Value bad =
        logical_or(less(target, constant_like(target, -1)), greater_equal(target, constant_like(target, classes)));
    if (target.numel() > 0) op.context().report_out_of_bounds(reduce_or(bad, {0, 1}));
    Value end = reduce_min(select(less(target, zero), position, constant_like(position, classes)), {1});
    valid = less(position, broadcast_in_dim(end, target.dims(), {0}));
    valid = logical_and(valid, logical_not(bad));
    target = select(valid, target, zero);
  }
  Dims cube() const { return {n, classes, classes}; }
  // [N, K, C]: label k is class c.
  Value one_hot(Builder& b) const {
    Value t = broadcast_in_dim(target, cube(), {0, 1});
    return logical_and(equal(t, iota(b, ElementType::kS64, cube(), 2)), broadcast_in_dim(valid, cube(), {0, 1}));
  }
  // [N, K, C]: 1 - x[label k] + x[c], where it counts.
  std::pair<Value, Value> terms(Op& op, Value is_target) const {
    Value x = reshape(op.tensor("self", type), {n, classes});
    Value hot = one_hot(op.builder());
    Value spread = broadcast_in_dim(x, cube(), {0, 2});
    Value at_label = reduce_sum(select(hot, spread, constant_like(spread, 0)), {2});  // [N, K]
    Value z = constant_like(spread, 1) - broadcast_in_dim(at_label, cube(), {0, 1}) + spread;
    Value counts =
        logical_and(broadcast_in_dim(valid, cube(), {0, 1}), logical_not(broadcast_in_dim(is_target, cube(), {0, 2})));
    return {z, logical_and(counts, greater(z, constant_like(z, 0)))};
  }
};

Results multilabel_margin_loss_forward(Op& op) {
  Labels labels(op);
  Value is_target = reduce_or(labels.one_hot(op.builder()), {1});
  auto [z, counts] = labels.terms(op, is_target);
  Value losses = reduce_sum(select(counts, z, constant_like(z, 0)), {1, 2});
  losses = losses / constant_like(losses, labels.classes);
  Value loss = reduce_loss(losses, reduction_of(op));
  if (op.rank("self") < 2) loss = reshape(loss, {});
  return {convert(loss, labels.out), convert(reshape(is_target, op.dims("target")), labels.out)};
}

Value multilabel_margin_loss_backward(Op& op) {
  Labels labels(op);
  Value is_target = reshape(op.tensor("is_target", ElementType::kPred), {labels.n, labels.classes});
  Value counts = labels.terms(op, is_target).second;
  Value one = constant(op.builder(), labels.type, 1, labels.cube()), zero = constant_like(one, 0);
  Value ones = select(counts, one, zero);
  Value up = reduce_sum(ones, {1});                                                     // [N, C]
  Value per_label = broadcast_in_dim(reduce_sum(ones, {2}), labels.cube(), {0, 1});     // [N, K, C]
  Value down = reduce_sum(select(labels.one_hot(op.builder()), per_label, zero), {1});  // [N, C]
  Value d = (up - down) / constant_like(up, labels.classes);
  if (reduction_of(op) == Reduction::kMean) d = d / constant_like(d, labels.n);
  Value grad = op.tensor("grad_output", labels.type);
  grad = grad.numel() == 1 ? broadcast_to(reshape(grad, {}), d.dims()) : broadcast_in_dim(grad, d.dims(), {0});
  return convert(reshape(d * grad, op.dims("self")), labels.out);
}

}  // namespace

void register_loss_class(Registry& r) {
  r.add("nll_loss_forward", nll_loss_forward);
  r.add("nll_loss_backward", nll_loss_backward);
  r.add("nll_loss2d_forward", nll_loss_forward);
  r.add("nll_loss2d_backward", nll_loss_backward);
  // The meta kernels say [1] where the CPU returns a scalar.
  r.add("multi_margin_loss", multi_margin_loss).structural({"p"}).own_results();
  r.add("multi_margin_loss_backward", multi_margin_loss_backward).structural({"p"});
  r.add("multilabel_margin_loss_forward", multilabel_margin_loss_forward).own_results();
  r.add("multilabel_margin_loss_backward", multilabel_margin_loss_backward);
}

}  // namespace torch_tpu::lowering
