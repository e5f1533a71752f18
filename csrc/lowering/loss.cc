// Losses that compare element by element, and their backwards. Losses over classes are in loss_class.cc.
#include "lowering/loss.h"

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

Value reduce_loss(Value loss, Reduction reduction) {
  if (reduction == Reduction::kNone) return loss;
  Value sum = reduce_sum(loss, all_dims(loss.rank()));
  return reduction == Reduction::kMean ? sum / constant_like(sum, loss.numel()) : sum;
}

namespace {

// self and target (and more) broadcast against each other in the opmath type.
struct Pair {
  ElementType out, type;
  Value x, y;
  explicit Pair(const Op& op) : out(common_type(op, {"self", "target"})), type(opmath_type(out)) {
    x = op.tensor("self", type);
    y = op.tensor("target", type);
    broadcast_all({&x, &y});
  }
};

// The gradient of a loss with derivative d(x, y): the incoming gradient, and 1 / n for means.
Value backward(const Op& op, const std::function<Value(Value, Value)>& derivative) {
  const ElementType out = common_type(op, {"self", "target", "grad_output"}), type = opmath_type(out);
  Value x = op.tensor("self", type), y = op.tensor("target", type), grad = op.tensor("grad_output", type);
  broadcast_all({&x, &y, &grad});
  Value d = derivative(x, y) * grad;
  if (reduction_of(op) == Reduction::kMean) d = d / constant_like(d, op.type("self").numel());
  return convert(d, out);
}

Value mse_loss(Op& op) {
  Pair p(op);
  Value d = p.x - p.y;
  return convert(reduce_loss(d * d, reduction_of(op)), p.out);
}

Value mse_loss_backward(Op& op) {
  return backward(op, [](Value x, Value y) { return constant_like(x, 2) * (x - y); });
}

Value smooth_l1_loss(Op& op) {
  Pair p(op);
  Value beta = like(p.x, op.scalar("beta", p.type)), half = constant_like(p.x, 0.5);
  Value z = abs(p.x - p.y);
  Value loss = select(less(z, beta), half * z * z / beta, z - half * beta);
  return convert(reduce_loss(loss, reduction_of(op)), p.out);
}

Value smooth_l1_loss_backward(Op& op) {
  return backward(op, [&](Value x, Value y) {
    Value beta = like(x, op.scalar("beta", x.element())), one = constant_like(x, 1), d = x - y;
    return select(less_equal(d, negate(beta)), negate(one), select(greater_equal(d, beta), one, d / beta));
  });
}

Value huber_loss(Op& op) {
  Pair p(op);
  Value delta = like(p.x, op.scalar("delta", p.type)), half = constant_like(p.x, 0.5);
  Value z = abs(p.x - p.y);
  Value loss = select(less_equal(z, delta), half * z * z, delta * (z - half * delta));
  return convert(reduce_loss(loss, reduction_of(op)), p.out);
}

Value huber_loss_backward(Op& op) {
  return backward(op, [&](Value x, Value y) {
    Value delta = like(x, op.scalar("delta", x.element())), d = x - y;
    return select(less_equal(d, negate(delta)), negate(delta), select(greater_equal(d, delta), delta, d));
  });
}

Value soft_margin_loss(Op& op) {
  Pair p(op);
  return convert(reduce_loss(log_plus_one(exponential(negate(p.y) * p.x)), reduction_of(op)), p.out);
}

Value soft_margin_loss_backward(Op& op) {
  return backward(op, [](Value x, Value y) {
    Value z = exponential(negate(y) * x);
    return negate(y) * z / (z + constant_like(z, 1));
  });
}

Value weighted(const Op& op, Value loss) {
  return op.has("weight") ? loss * like(loss, op.tensor("weight", loss.element())) : loss;
}

Value binary_cross_entropy(Op& op) {
  Pair p(op);
  Value one = constant_like(p.x, 1), floor = constant_like(p.x, -100);
  // The logarithms are clamped so that the loss stays finite at 0 and 1.
  Value loss = (p.y - one) * maximum(log_plus_one(negate(p.x)), floor) - p.y * maximum(log(p.x), floor);
  return convert(reduce_loss(weighted(op, loss), reduction_of(op)), p.out);
}

Value binary_cross_entropy_backward(Op& op) {
  return backward(op, [&](Value x, Value y) {
    Value d = (x - y) / maximum((constant_like(x, 1) - x) * x, constant_like(x, 1e-12));
    return weighted(op, d);
  });
}

Value binary_cross_entropy_with_logits(Op& op) {
  Pair p(op);
  Value one = constant_like(p.x, 1), zero = constant_like(p.x, 0);
  Value minus_log_sigmoid = log_plus_one(exponential(negate(abs(p.x)))) - minimum(p.x, zero);
  Value loss = (one - p.y) * p.x;
  if (op.has("pos_weight")) {
    Value scale = (like(p.x, op.tensor("pos_weight", p.type)) - one) * p.y + one;
    loss = loss + scale * minus_log_sigmoid;
  } else {
    loss = loss + minus_log_sigmoid;
  }
  return convert(reduce_loss(weighted(op, loss), reduction_of(op)), p.out);
}

}  // namespace

void register_loss(Registry& r) {
  r.add("mse_loss", mse_loss);
  r.add("mse_loss_backward", mse_loss_backward);
  r.add("smooth_l1_loss", smooth_l1_loss);
  r.add("smooth_l1_loss_backward", smooth_l1_loss_backward);
  r.add("huber_loss", huber_loss);
  r.add("huber_loss_backward", huber_loss_backward);
  r.add("soft_margin_loss", soft_margin_loss);
  r.add("soft_margin_loss_backward", soft_margin_loss_backward);
  r.add("binary_cross_entropy", binary_cross_entropy);
  r.add("binary_cross_entropy_backward", binary_cross_entropy_backward);
  r.add("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits);
  register_loss_class(r);
  register_loss_ctc(r);
  register_distance(r);
}

}  // namespace torch_tpu::lowering
