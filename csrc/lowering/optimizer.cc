// The fused optimizers: one program updates all parameters of a group. Formulas and order of operations of ATen's CPU
// kernels. All hyperparameters are runtime inputs, so a schedule does not recompile.
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

// The type that step-dependent scalars are computed in. TPUs emulate f64; what needs it there is only a difference.
ElementType scalar_type(const Op& op) { return op.target().is_tpu() ? kF32 : kF64; }

Value rank0(Value x) { return reshape(x, {}); }

// A float argument, or the tensor (of one element) that stands in its place.
Value hyperparameter(const Op& op, std::string_view arg, ElementType as) {
  return op.is_tensor(arg) ? rank0(op.tensor(arg, as)) : op.scalar(arg, as);
}

// 1 - beta in `as`, from the difference in f64.
Value one_minus(const Op& op, std::string_view beta, ElementType as) {
  Value b = op.scalar(beta, kF64);
  return convert(constant_like(b, 1.0) - b, as);
}

// 1 - beta^step, without the cancellation.
Value bias_correction(Value one_minus_beta, Value step) {
  return negate(exponential_minus_one(step * log_plus_one(negate(one_minus_beta))));
}

// One parameter's gradient as the update uses it, in opmath; found_inf and grad_scale as GradScaler passes them.
class Step {
 public:
  Step(Op& op) : op_(op), params_(op.tensors("self")), grads_(op.tensors("grads")) {
    if (op.has("found_inf")) {
      Value found = rank0(op.tensor("found_inf", kF32));
      skip_ = equal(found, constant_like(found, 1.0));
    }
    if (op.has("grad_scale")) grad_scale_ = rank0(op.tensor("grad_scale"));
  }

  size_t size() const { return params_.size(); }
  ElementType opmath(size_t i) const { return opmath_type(params_[i].element()); }
  Value param(size_t i) const { return convert(params_[i], opmath(i)); }

  Value grad(size_t i) {
    Value g = convert(grads_[i], opmath(i));
    if (grad_scale_) {
      g = g / like(g, convert(*grad_scale_, g.element()));
      // The unscaled gradient stays visible to the user.
      write("grads", i, grads_[i], g);
    }
    return op_.boolean("maximize") ? negate(g) : g;
  }

  // old becomes value, unless this step is to be skipped for an infinite gradient.
  void write(std::string_view arg, size_t i, Value old, Value value) {
    value = convert(value, old.element());
    op_.write(arg, i, skip_ ? select(*skip_, old, value) : value);
  }
  void write_param(size_t i, Value value) { write("self", i, params_[i], value); }

 private:
  Op& op_;
  std::vector<Value> params_, grads_;
  std::optional<Value> skip_, grad_scale_;
};

// A rank-0 value in the type and dims of x.
Value spread(Value x, Value scalar) { return like(x, convert(scalar, x.element())); }

// at::lerp, which starts from the nearer end.
Value lerp(Value start, Value end, Value weight) {
  Value w = convert(weight, start.element());
  Value near_start = less(abs(w), constant_like(w, 0.5));
  Value coefficient = select(near_start, w, w - constant_like(w, 1.0));
  return select(near_start, start, end) + like(start, coefficient) * (end - start);
}

Results adam(Op& op, bool decoupled) {
  Step step(op);
  const ElementType st = scalar_type(op);
  const bool amsgrad = op.boolean("amsgrad");
  const std::vector<Value> exp_avgs = op.tensors("exp_avgs"), exp_avg_sqs = op.tensors("exp_avg_sqs"),
                           max_exp_avg_sqs = op.tensors("max_exp_avg_sqs"), steps = op.tensors("state_steps");
  Value lr = hyperparameter(op, "lr", st), weight_decay = op.scalar("weight_decay", st), eps = op.scalar("eps", st);
  Value beta2 = op.scalar("beta2", st);
  Value one_minus_beta1 = one_minus(op, "beta1", st), one_minus_beta2 = one_minus(op, "beta2", st);
  for (size_t i = 0; i < step.size(); ++i) {
    Value param = step.param(i), grad = step.grad(i);
    Value t = convert(rank0(steps[i]), st);
    Value step_size = lr / bias_correction(one_minus_beta1, t);
    Value correction2_sqrt = stablehlo::sqrt(bias_correction(one_minus_beta2, t));
    if (decoupled) {
      param = param * spread(param, constant_like(lr, 1.0) - lr * weight_decay);
    } else {
      grad = grad + param * spread(param, weight_decay);
    }
    Value exp_avg = lerp(convert(exp_avgs[i], param.element()), grad, one_minus_beta1);
    Value exp_avg_sq =
        convert(exp_avg_sqs[i], param.element()) * spread(param, beta2) + spread(param, one_minus_beta2) * grad * grad;
    step.write("exp_avgs", i, exp_avgs[i], exp_avg);
    step.write("exp_avg_sqs", i, exp_avg_sqs[i], exp_avg_sq);
    Value second = exp_avg_sq;
    if (amsgrad) {
      second = maximum(convert(max_exp_avg_sqs[i], param.element()), exp_avg_sq);
      step.write("max_exp_avg_sqs", i, max_exp_avg_sqs[i], second);
    }
    Value denominator = stablehlo::sqrt(second) / spread(param, correction2_sqrt) + spread(param, eps);
    step.write_param(i, param - spread(param, step_size) * exp_avg / denominator);
  }
  return {};
}

Results fused_adam(Op& op) { return adam(op, false); }
Results fused_adamw(Op& op) { return adam(op, true); }

Results fused_sgd(Op& op) {
  Step step(op);
  const std::vector<Value> buffers = op.tensors("momentum_buffer_list");
  const ElementType st = scalar_type(op);
  Value lr = hyperparameter(op, "lr", st), weight_decay = op.scalar("weight_decay", st);
  Value momentum = op.scalar("momentum", st), one_minus_dampening = one_minus(op, "dampening", st);
  for (size_t i = 0; i < step.size(); ++i) {
    Value param = step.param(i), grad = step.grad(i);
    grad = grad + param * spread(param, weight_decay);
    if (!buffers.empty()) {
      Value buffer = grad;
      if (!op.boolean("is_first_step"))
        buffer =
            convert(buffers[i], param.element()) * spread(param, momentum) + grad * spread(param, one_minus_dampening);
      step.write("momentum_buffer_list", i, buffers[i], buffer);
      grad = op.boolean("nesterov") ? grad + buffer * spread(param, momentum) : buffer;
    }
    step.write_param(i, param - spread(param, lr) * grad);
  }
  return {};
}

Results fused_adagrad(Op& op) {
  Step step(op);
  const std::vector<Value> sums = op.tensors("state_sums"), steps = op.tensors("state_steps");
  const ElementType st = scalar_type(op);
  Value lr = hyperparameter(op, "lr", st), lr_decay = op.scalar("lr_decay", st);
  Value weight_decay = op.scalar("weight_decay", st), eps = op.scalar("eps", st);
  for (size_t i = 0; i < step.size(); ++i) {
    Value param = step.param(i), grad = step.grad(i);
    Value one = constant_like(lr, 1.0);
    Value rate = lr / (one + (convert(rank0(steps[i]), st) - one) * lr_decay);
    grad = grad + param * spread(param, weight_decay);
    Value sum = convert(sums[i], param.element()) + grad * grad;
    step.write("state_sums", i, sums[i], sum);
    step.write_param(i, param - spread(param, rate) * grad / (stablehlo::sqrt(sum) + spread(param, eps)));
  }
  return {};
}

}  // namespace

void register_optimizer(Registry& r) {
  for (const char* overload : {"", ".tensor_lr"}) {
    const std::string suffix = overload;
    r.add("_fused_adam_" + suffix, fused_adam).mutates({"self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"});
    r.add("_fused_adamw_" + suffix, fused_adamw)
        .mutates({"self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"});
    r.add("_fused_sgd_" + suffix, fused_sgd).mutates({"self", "grads", "momentum_buffer_list"});
    r.add("_fused_adagrad_" + suffix, fused_adagrad).mutates({"self", "grads", "state_sums"});
  }
}

}  // namespace torch_tpu::lowering
