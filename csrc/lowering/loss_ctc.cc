// Connectionist temporal classification: forward variables by a loop over time, and the gradient from them.
#include <algorithm>
#include <limits>

#include "lowering/helpers.h"
#include "lowering/registry.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

constexpr double kBottom = -std::numeric_limits<double>::infinity();
constexpr ElementType kIndex = ElementType::kS64;

// Lengths as int[] or as a tensor: s64 [N].
Value lengths(const Op& op, std::string_view arg) {
  if (op.is_tensor(arg)) return op.tensor(arg, kIndex);
  return constant_vector(op.builder(), kIndex, op.integers(arg));
}

struct Ctc {
  ElementType out, type;
  int64_t time, batch, classes, states;  // states: 2 * longest target + 1
  Value log_probs;                       // [T, N, C]
  Value input_lengths, target_lengths;   // [N]
  Value labels;                          // [N, L]: blank, target 0, blank, target 1, ...
  Value emitted;                         // [T, N, L]: log probability of each state's label
  Value state;                           // iota over L, [N, L]
  Value jumps;                           // [N, L]: state s may follow s - 2

  Ctc(const Op& op) : out(op.element("log_probs")), type(opmath_type(out)) {
    Builder& b = op.builder();
    const Dims& dims = op.dims("log_probs");
    if (dims.size() != 3) throw CallError("log_probs must have three dimensions");
    time = dims[0], batch = dims[1], classes = dims[2];
    const int64_t blank = op.integer("blank");
    if (blank < 0 || blank >= classes) throw CallError("blank must be in label range");
    check_lengths(op, "input_lengths", time);
    log_probs = op.tensor("log_probs", type);
    input_lengths = lengths(op, "input_lengths");
    target_lengths = lengths(op, "target_lengths");

    Value targets = op.tensor("targets", kIndex);
    int64_t longest = targets.dims().back();
    if (!op.is_tensor("target_lengths")) {
      const Dims& given = op.integers("target_lengths");
      longest = given.empty() ? 0 : *std::max_element(given.begin(), given.end());
    }
    if (targets.rank() == 2) check_lengths(op, "target_lengths", targets.dim(1));
    states = 2 * longest + 1;
    const Dims plane{batch, states};
    state = iota(b, kIndex, plane, 1);
    Value is_label = equal(logical_and(state, constant_like(state, 1)), constant_like(state, 1));
    labels = constant(b, kIndex, blank, plane);
    if (longest > 0 && targets.numel() > 0) {
      // Where each sequence starts: rows of a matrix, or one after the other.
      Value start;
      if (targets.rank() == 2) {
        start = iota(b, kIndex, {batch}, 0) * constant(b, kIndex, targets.dim(1), {batch});
      } else {
        start = inclusive_scan(target_lengths, constant(b, kIndex, 0), 0, add) - target_lengths;
      }
      Value at = broadcast_in_dim(start, plane, {0}) + shift_right_logical(state, constant_like(state, 1));
      at = minimum(maximum(at, constant_like(at, 0)), constant_like(at, targets.numel() - 1));
      labels = select(is_label, take(flatten(targets), at, 0), labels);
    }
    // Padding may hold anything; labels that are out of range are never read from.
    Value read = minimum(maximum(labels, constant_like(labels, 0)), constant_like(labels, classes - 1));
    Value row = iota(b, kIndex, plane, 0) * constant_like(read, classes) + read;
    emitted = take(reshape(log_probs, {time, batch * classes}), row, 1);
    Value before = shifted(labels, 2, constant(b, kIndex, -1));
    jumps = logical_and(is_label, not_equal(labels, before));
  }

  void check_lengths(const Op& op, std::string_view arg, int64_t limit) const {
    if (op.is_tensor(arg)) return;
    const Dims& given = op.integers(arg);
    if (static_cast<int64_t>(given.size()) != batch) throw CallError(std::string(arg) + " must be of size batch_size");
    for (int64_t n : given)
      if (n < 0 || n > limit)
        throw CallError("Expected " + std::string(arg) + " to have value at most " + std::to_string(limit) +
                        ", but got value " + std::to_string(n));
  }

  // Along the states: element s of the result is element s - by of v.
  Value shifted(Value v, int64_t by, Value fill) const { return pad(v, fill, {0, by}, {0, -by}); }
  Value bottom() const { return constant(log_probs.builder(), type, kBottom); }
  Value plane(Value v) const { return broadcast_in_dim(v, {batch, states}, {0}); }  // [N] to [N, L]
  Value step(Value stack, Value t) const {                                          // [T, N, L] at t
    Value zero = constant_like(t, 0);
    const Value starts[3] = {t, zero, zero};
    return reshape(dynamic_slice(stack, starts, {1, batch, states}), {batch, states});
  }
  Value put(Value stack, Value t, Value v) const {
    Value zero = constant_like(t, 0);
    const Value starts[3] = {t, zero, zero};
    return dynamic_update_slice(stack, reshape(v, {1, batch, states}), starts);
  }
  // log(e^a + e^b + e^c)
  Value log_sum(Value a, Value b, Value c) const {
    Value m = maximum(maximum(a, b), c);
    m = select(equal(m, constant_like(m, kBottom)), constant_like(m, 0), m);
    return log(exponential(a - m) + exponential(b - m) + exponential(c - m)) + m;
  }
  // The last state of each sequence, 2 * target length, as [N, L].
  Value last_state() const { return plane(target_lengths + target_lengths); }
};

Results ctc_loss(Op& op) {
  Ctc c(op);
  Builder& b = op.builder();
  if (c.batch == 0 || c.time == 0)
    return {constant(b, c.out, 0, {c.batch}), constant(b, c.out, kBottom, {c.batch, c.time, c.states})};
  Value none = constant(b, c.type, kBottom, {c.batch, c.states});
  Value last = c.last_state(), used = less_equal(c.state, last);
  Value start = logical_and(less_equal(c.state, constant_like(c.state, 1)), used);
  Value input_lengths = c.plane(c.input_lengths);
  const Value init[3] = {constant(b, kIndex, 0), none, constant(b, c.type, kBottom, {c.time, c.batch, c.states})};
  std::vector<Value> r = while_loop(
      init, [&](std::span<const Value> s) { return less(s[0], constant_like(s[0], c.time)); },
      [&](std::span<const Value> s) {
        Value t = s[0], alpha = s[1];
        Value bottom = constant(b, c.type, kBottom);
        Value skipped = select(c.jumps, c.shifted(alpha, 2, bottom), constant_like(alpha, kBottom));
        Value next = c.log_sum(alpha, c.shifted(alpha, 1, bottom), skipped);
        Value first = select(start, constant_like(alpha, 0), constant_like(alpha, kBottom));
        next = select(broadcast_to(equal(t, constant_like(t, 0)), next.dims()), first, next) + c.step(c.emitted, t);
        next = select(used, next, constant_like(next, kBottom));
        // A sequence that is over keeps its last forward variables.
        alpha = select(less(like(input_lengths, t), input_lengths), next, alpha);
        return std::vector<Value>{t + constant_like(t, 1), alpha, c.put(s[2], t, alpha)};
      });
  // A path ends in the last blank or the last label.
  Value ends = logical_and(used, greater_equal(c.state, last - constant_like(last, 1)));
  Value final = select(ends, r[1], constant_like(r[1], kBottom));
  Value m = reduce_max(final, {1});
  m = select(equal(m, constant_like(m, kBottom)), constant_like(m, 0), m);
  Value likelihood = log(reduce_sum(exponential(final - c.plane(m)), {1})) + m;
  // Without input only the empty target has a path.
  Value zero = constant_like(c.input_lengths, 0);
  Value empty = logical_and(equal(c.input_lengths, zero), equal(c.target_lengths, zero));
  Value loss = select(empty, constant_like(likelihood, 0), negate(likelihood));
  return {convert(loss, c.out), convert(transpose(r[2], {1, 0, 2}), c.out)};
}

Value ctc_loss_backward(Op& op) {
  Ctc c(op);
  Builder& b = op.builder();
  const Dims dims{c.time, c.batch, c.classes};
  if (c.batch == 0 || c.time == 0 || c.classes == 0) return constant(b, c.out, 0, dims);
  Value alpha = transpose(op.tensor("log_alpha", c.type), {1, 0, 2});
  Value loss = op.tensor("neg_log_likelihood", c.type), grad = op.tensor("grad", c.type);
  Value last = c.last_state(), used = less_equal(c.state, last);
  Value ends = logical_and(used, greater_equal(c.state, last - constant_like(last, 1)));
  Value final_step = c.plane(c.input_lengths) - constant_like(last, 1);
  // May state s go on to s + 2?
  Value jumps_on = pad(c.jumps, constant(b, ElementType::kPred, false), {0, -2}, {0, 2});
  const Value init[3] = {constant(b, kIndex, c.time - 1), constant(b, c.type, kBottom, {c.batch, c.states}),
                         constant(b, c.type, kBottom, {c.time, c.batch, c.states})};
  std::vector<Value> r = while_loop(
      init, [&](std::span<const Value> s) { return greater_equal(s[0], constant_like(s[0], 0)); },
      [&](std::span<const Value> s) {
        Value t = s[0], beta = s[1], bottom = constant(b, c.type, kBottom);
        Value none = constant_like(beta, kBottom);
        Value skipped = select(jumps_on, c.shifted(beta, -2, bottom), none);
        Value next = c.log_sum(beta, c.shifted(beta, -1, bottom), skipped);
        Value at = like(final_step, t);
        next = select(equal(at, final_step), select(ends, constant_like(beta, 0), none), next);
        next = next + c.step(c.emitted, t);
        next = select(logical_and(used, less_equal(at, final_step)), next, none);
        return std::vector<Value>{t - constant_like(t, 1), next, c.put(s[2], t, next)};
      });
  // The posterior of each state, summed over the states of each class.
  Value together = alpha + r[2];
  Value spread_loss = broadcast_in_dim(loss, together.dims(), {1});
  Value possible = greater(together, constant_like(together, kBottom));
  Value posterior = select(possible, exponential(together + spread_loss - c.emitted), constant_like(together, 0));
  const Dims cube{c.batch, c.states, c.classes};
  Value one_hot = convert(equal(broadcast_in_dim(c.labels, cube, {0, 1}), iota(b, kIndex, cube, 2)), c.type);
  Value by_class = dot_general(posterior, one_hot, {{1}, {0}, {2}, {1}}, DotPrecision::kHighest);  // [N, T, C]
  Value d = exponential(c.log_probs) - transpose(by_class, {1, 0, 2});
  Value infinite = broadcast_in_dim(is_inf(loss), dims, {1});
  d = d * broadcast_in_dim(grad, dims, {1});
  d = select(infinite, op.boolean("zero_infinity") ? constant_like(d, 0) : quiet_nan(b, c.type, dims), d);
  Value t = iota(b, kIndex, dims, 0);
  d = select(less(t, broadcast_in_dim(c.input_lengths, dims, {1})), d, constant_like(d, 0));
  return convert(d, c.out);
}

}  // namespace

void register_loss_ctc(Registry& r) {
  r.add("_ctc_loss", ctc_loss);
  r.add("_ctc_loss.Tensor", ctc_loss);
  r.add("_ctc_loss_backward", ctc_loss_backward);
  r.add("_ctc_loss_backward.Tensor", ctc_loss_backward);
}

}  // namespace torch_tpu::lowering
