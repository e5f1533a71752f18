// The fused LSTM and GRU cells, which ATen's composite lstm and gru call on PrivateUse1 devices, and their gradients.
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// Gate number i of [batch, n * hidden].
Value gate(Value gates, int64_t i, int64_t hidden) {
  return slice_dim(gates, gates.rank() - 1, i * hidden, (i + 1) * hidden);
}

Value biased(const Op& op, std::string_view gates, std::string_view bias, ElementType t) {
  Value x = op.tensor(gates, t);
  return op.has(bias) ? x + like(x, op.tensor(bias, t)) : x;
}

Value one_minus(Value x) { return constant_like(x, 1.0) - x; }
// Derivatives by their results.
Value sigmoid_slope(Value y) { return y * one_minus(y); }
Value tanh_slope(Value y) { return one_minus(y * y); }

// (hy, cy, activated gates)
Results lstm_cell(Op& op) {
  const ElementType type = op.element("cx"), t = opmath_type(type);
  Value gates = biased(op, "input_gates", "input_bias", t) + biased(op, "hidden_gates", "hidden_bias", t);
  const int64_t hidden = op.dims("cx").back();
  Value in = logistic(gate(gates, 0, hidden)), forget = logistic(gate(gates, 1, hidden));
  Value cell = tanh(gate(gates, 2, hidden)), out = logistic(gate(gates, 3, hidden));
  Value cy = forget * op.tensor("cx", t) + in * cell;
  Value hy = out * tanh(cy);
  const Value parts[4] = {in, forget, cell, out};
  return {convert(hy, type), convert(cy, type), convert(concatenate(parts, gates.rank() - 1), type)};
}

// (grad of the gates, grad of cx, grad of the bias)
Results lstm_cell_backward(Op& op) {
  const ElementType type = op.element("workspace"), t = opmath_type(type);
  Value workspace = op.tensor("workspace", t), cx = op.tensor("cx", t), cy = op.tensor("cy", t);
  if (!op.has("grad_hy") && !op.has("grad_cy")) return {Value{}, Value{}, Value{}};
  const int64_t hidden = op.dims("cx").back();
  Value in = gate(workspace, 0, hidden), forget = gate(workspace, 1, hidden), cell = gate(workspace, 2, hidden),
        out = gate(workspace, 3, hidden);
  Value zero = constant_like(cx, 0.0);
  Value grad_hy = op.optional_tensor("grad_hy", t).value_or(zero);
  Value tanh_cy = tanh(cy);
  Value grad_c = grad_hy * out * tanh_slope(tanh_cy) + op.optional_tensor("grad_cy", t).value_or(zero);
  const Value parts[4] = {grad_c * cell * sigmoid_slope(in), grad_c * cx * sigmoid_slope(forget),
                          grad_c * in * tanh_slope(cell), grad_hy * tanh_cy * sigmoid_slope(out)};
  Value grad_gates = concatenate(parts, workspace.rank() - 1);
  Value grad_bias;
  if (op.boolean("has_bias")) grad_bias = convert(reduce_sum(grad_gates, {0}), type);
  return {convert(grad_gates, type), convert(grad_c * forget, type), grad_bias};
}

// (hy, workspace): the workspace holds what the gradient needs, [reset, update, new, hx, hidden part of new].
Results gru_cell(Op& op) {
  const ElementType type = op.element("hx"), t = opmath_type(type);
  Value input = biased(op, "input_gates", "input_bias", t), hidden_gates = biased(op, "hidden_gates", "hidden_bias", t);
  Value hx = op.tensor("hx", t);
  const int64_t hidden = op.dims("hx").back();
  Value reset = logistic(gate(input, 0, hidden) + gate(hidden_gates, 0, hidden));
  Value update = logistic(gate(input, 1, hidden) + gate(hidden_gates, 1, hidden));
  Value hidden_new = gate(hidden_gates, 2, hidden);
  Value fresh = tanh(gate(input, 2, hidden) + reset * hidden_new);
  Value hy = fresh + update * (hx - fresh);
  const Value parts[5] = {reset, update, fresh, hx, hidden_new};
  return {convert(hy, type), convert(concatenate(parts, hx.rank() - 1), type)};
}

// (grads of input gates, hidden gates, hx, input bias, hidden bias)
Results gru_cell_backward(Op& op) {
  const ElementType type = op.element("workspace"), t = opmath_type(type);
  Value grad = op.tensor("grad_hy", t), workspace = op.tensor("workspace", t);
  const int64_t hidden = workspace.dims().back() / 5, last = workspace.rank() - 1;
  Value reset = gate(workspace, 0, hidden), update = gate(workspace, 1, hidden), fresh = gate(workspace, 2, hidden),
        hx = gate(workspace, 3, hidden), hidden_new = gate(workspace, 4, hidden);
  Value grad_update = grad * (hx - fresh) * sigmoid_slope(update);
  Value grad_fresh = grad * one_minus(update) * tanh_slope(fresh);
  Value grad_reset = grad_fresh * hidden_new * sigmoid_slope(reset);
  const Value input_parts[3] = {grad_reset, grad_update, grad_fresh};
  const Value hidden_parts[3] = {grad_reset, grad_update, grad_fresh * reset};
  Value grad_input = concatenate(input_parts, last), grad_hidden = concatenate(hidden_parts, last);
  Value input_bias, hidden_bias;
  if (op.boolean("has_bias")) {
    input_bias = convert(reduce_sum(grad_input, {0}), type);
    hidden_bias = convert(reduce_sum(grad_hidden, {0}), type);
  }
  return {convert(grad_input, type), convert(grad_hidden, type), convert(grad * update, type), input_bias, hidden_bias};
}

}  // namespace

void register_rnn(Registry& r) {
  r.add("_thnn_fused_lstm_cell", lstm_cell);
  r.add("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  r.add("_thnn_fused_gru_cell", gru_cell);
  r.add("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace torch_tpu::lowering
