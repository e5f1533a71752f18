// Scaled dot product attention as one program: scores, mask, softmax, dropout and both products.
#include <cmath>

#include "lowering/contraction.h"
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// Everything as [batch * heads, length, features], scores in opmath.
struct Attention {
  Op& op;
  int64_t batch, heads, kv_heads, q_length, kv_length;
  Value query, key, value;
  ElementType compute;

  explicit Attention(Op& o) : op(o) {
    query = op.tensor("query");
    key = op.tensor("key");
    value = op.tensor("value");
    const Dims& q = query.dims();
    const size_t r = q.size();
    batch = r == 4 ? q[0] : 1;
    heads = q[r - 3];
    kv_heads = key.dims()[r - 3];
    q_length = q[r - 2];
    kv_length = key.dims()[r - 2];
    compute = opmath_type(query.element());
    query = reshape(query, {batch * heads, q_length, q[r - 1]});
    key = expand_heads(key);
    value = expand_heads(value);
  }

  // Grouped-query attention: each key and value head serves heads / kv_heads query heads.
  Value expand_heads(Value x) const {
    const int64_t features = x.dims().back();
    if (kv_heads == heads) return reshape(x, {batch * heads, kv_length, features});
    x = reshape(x, {batch * kv_heads, kv_length, features});
    x = broadcast_in_dim(x, {batch * kv_heads, heads / kv_heads, kv_length, features}, {0, 2, 3});
    return reshape(x, {batch * heads, kv_length, features});
  }

  Value reduce_heads(Value x, const Dims& dims) const {
    if (kv_heads == heads) return reshape(x, dims);
    return reshape(reduce_sum(reshape(x, {batch * kv_heads, heads / kv_heads, kv_length, dims.back()}), {1}), dims);
  }

  Value scale() const {
    if (op.has("scale")) return op.scalar("scale", compute);
    return constant(op.builder(), compute, 1.0 / std::sqrt(static_cast<double>(query.dims().back())));
  }

  Value scores() const {
    Value s = contract(op, query, key, {{0}, {0}, {2}, {2}});
    s = multiply(s, like(s, scale()));
    if (op.has("attn_bias")) {
      Value bias = broadcast_to(op.tensor("attn_bias", compute), {batch, heads, q_length, kv_length});
      s = add(s, reshape(bias, s.dims()));
    }
    if (op.boolean("is_causal")) {
      Value row = iota(op.builder(), ElementType::kS32, s.dims(), 1);
      Value column = iota(op.builder(), ElementType::kS32, s.dims(), 2);
      s = select(less_equal(column, row), s, lowest(op.builder(), compute, s.dims()));
    }
    return s;
  }

  int64_t random_blocks() const { return (batch * heads * q_length * kv_length + 3) / 4; }

  // Which probabilities survive, times 1 / (1 - p): the same in forward and backward, from the same Philox state.
  Value dropout_multiplier(Value state) const {
    Builder& b = op.builder();
    const Dims dims{batch * heads, q_length, kv_length};
    Value bits = rng_bit_generator(state, ElementType::kU32, dims).second;
    Value uniform = multiply(convert(shift_right_logical(bits, constant_like(bits, 8)), ElementType::kF32),
                             constant(b, ElementType::kF32, 1.0 / 16777216.0, dims));
    Value p = op.scalar("dropout_p", ElementType::kF32);
    Value one = constant(b, ElementType::kF32, 1);
    // p == 1 keeps nothing, and must not multiply by infinity.
    Value factor = select(equal(p, one), constant(b, ElementType::kF32, 0), divide(one, subtract(one, p)));
    Value kept = greater_equal(uniform, broadcast_to(p, dims));
    return convert(select(kept, broadcast_to(factor, dims), constant(b, ElementType::kF32, 0, dims)), compute);
  }
};

// e as [b, n, 1] against [b, n, m].
Value along_rows(Value rows, Value like) { return broadcast_in_dim(rows, like.dims(), {0, 1}); }

struct Softmax {
  Value probabilities, logsumexp;
};

// Over the last dimension of [b, n, m]. A row without any key (all -inf) gives zeros, as CPU's kernels do: its maximum
// is taken as 0.
Softmax softmax(Value s) {
  Value maximum_row = reduce_max(s, {2});
  Value minus_infinity = lowest(s.builder(), s.element(), maximum_row.dims());
  Value shift = select(equal(maximum_row, minus_infinity), constant_like(maximum_row, 0), maximum_row);
  Value e = exponential(subtract(s, along_rows(shift, s)));
  Value sum = reduce_sum(e, {2});
  Value empty = equal(sum, constant_like(sum, 0));
  return {divide(e, along_rows(select(empty, constant_like(sum, 1), sum), e)),
          select(empty, minus_infinity, add(log(sum), shift))};
}

// From the logsumexp that the forward kept.
Value probabilities(Op& op, Value s) {
  Value lse = reshape(op.tensor("logsumexp", s.element()), {s.dims()[0], s.dims()[1]});
  Value empty = equal(lse, lowest(op.builder(), s.element(), lse.dims()));
  Value p = exponential(subtract(s, along_rows(select(empty, constant_like(lse, 0), lse), s)));
  return select(along_rows(empty, p), constant_like(p, 0), p);
}

Results attention_forward(Op& op) {
  Builder& b = op.builder();
  Attention a(op);
  Dims out_dims = op.dims("query");
  out_dims.back() = a.value.dims().back();
  auto [p, logsumexp] = softmax(a.scores());
  Value seed = constant(b, ElementType::kS64, 0), offset = seed;
  if (!op.scalar_equals("dropout_p", 0)) {
    Value state = op.context().random_state(a.random_blocks());
    p = multiply(p, a.dropout_multiplier(state));
    // The state travels to the backward in the two tensors that the schema has for it.
    Value words = bitcast_convert(state, ElementType::kS64);
    seed = reshape(slice_dim(words, 0, 0, 1), {});
    offset = reshape(slice_dim(words, 0, 1, 2), {});
  }
  Value out = batch_product(op, convert(p, a.value.element()), a.value);
  out = convert(reshape(out, out_dims), a.value.element());
  logsumexp = reshape(logsumexp, {a.batch, a.heads, a.q_length});
  // The two ints (max_q, max_k) and the absent tensors are undefined here: they need no device value.
  return {out, logsumexp, Value{}, Value{}, Value{}, Value{}, seed, offset, Value{}};
}

// Sums x down to `dims`, which broadcast to x's.
Value sum_to(Value x, const Dims& dims) {
  const int64_t lead = x.rank() - static_cast<int64_t>(dims.size());
  Dims reduced;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i < lead || (dims[static_cast<size_t>(i - lead)] == 1 && x.dims()[static_cast<size_t>(i)] != 1))
      reduced.push_back(i);
  return reshape(reduce_sum(x, reduced), dims);
}

Results attention_backward(Op& op) {
  if (!op.has("grad_out")) return Results(4);  // nothing came back to out, so nothing goes on
  Attention a(op);
  const std::vector<bool>& mask = op.booleans("grad_input_mask");
  const ElementType t = a.query.element();
  Value grad_out = reshape(op.tensor("grad_out"), {a.batch * a.heads, a.q_length, a.value.dims().back()});
  Value out = reshape(op.tensor("out"), grad_out.dims());
  Value s = a.scores();
  // The schema's logsumexp is float32, too coarse for float64.
  Value p = a.compute == ElementType::kF64 ? softmax(s).probabilities : probabilities(op, s);

  Value multiplier;
  Value dropped = p;
  if (op.constant_real("dropout_p") != 0) {
    const Value words[2] = {reshape(op.tensor("philox_seed", ElementType::kS64), {1}),
                            reshape(op.tensor("philox_offset", ElementType::kS64), {1})};
    multiplier = a.dropout_multiplier(bitcast_convert(concatenate(words, 0), ElementType::kU64));
    dropped = multiply(p, multiplier);
  }
  Value grad_value = contract(op, convert(dropped, t), grad_out, {{0}, {0}, {1}, {1}});
  Value grad_p = contract(op, grad_out, a.value, {{0}, {0}, {2}, {2}});
  if (multiplier.defined()) grad_p = multiply(grad_p, multiplier);
  // The softmax's correction, sum_j p_ij dp_ij, equals the row sum of grad_out * out, with dropout too.
  Value delta = reduce_sum(multiply(convert(grad_out, a.compute), convert(out, a.compute)), {2});
  Value grad_s = multiply(p, subtract(grad_p, along_rows(delta, grad_p)));
  Value scaled = convert(multiply(grad_s, like(grad_s, a.scale())), t);

  Results r(4);
  if (mask[0]) r[0] = convert(reshape(batch_product(op, scaled, a.key), op.dims("query")), t);
  if (mask[1]) r[1] = convert(a.reduce_heads(contract(op, scaled, a.query, {{0}, {0}, {1}, {1}}), op.dims("key")), t);
  if (mask[2]) r[2] = convert(a.reduce_heads(grad_value, op.dims("value")), t);
  if (mask[3] && op.has("attn_bias")) {
    Value full = reshape(grad_s, {a.batch, a.heads, a.q_length, a.kv_length});
    r[3] = convert(sum_to(full, op.dims("attn_bias")), op.element("attn_bias"));
  }
  return r;
}

// CPU's kernels have a mask of the query's type for a bias, and no dropout.
std::map<std::string, Argument, std::less<>> with_bias(const Op& op) {
  auto arguments = op.arguments();
  arguments["attn_bias"] = arguments.at("attn_mask");
  return arguments;
}

Results flash_attention_for_cpu(Op& op) {
  Op plain = op.with("_scaled_dot_product_fused_attention_overrideable", with_bias(op), {});
  Results r = attention_forward(plain);
  r.resize(2);
  return r;
}

Results flash_attention_for_cpu_backward(Op& op) {
  auto arguments = with_bias(op);
  arguments["grad_input_mask"] = {std::vector<bool>{true, true, true, false}};
  Op plain = op.with("_scaled_dot_product_fused_attention_overrideable_backward", std::move(arguments), {});
  Results r = attention_backward(plain);
  r.resize(3);
  return r;
}

// [b, t, 3 * d] plus its bias -> three of [b, heads, t, d / heads]; the query is scaled for attention.
Results transform_bias_rescale_qkv(Op& op) {
  const int64_t heads = op.integer("num_heads");
  const Dims& dims = op.dims("qkv");
  const int64_t b = dims.at(0), t = dims.at(1), head = dims.at(2) / 3 / heads;
  const ElementType e = op.element("qkv"), compute = opmath_type(e);
  Value x = op.tensor("qkv", compute);
  x = add(x, like(x, op.tensor("qkv_bias", compute)));
  x = stablehlo::transpose(reshape(x, {b, t, 3, heads, head}), {2, 0, 3, 1, 4});
  Results r;
  for (int64_t i = 0; i < 3; ++i) {
    Value part = reshape(slice_dim(x, 0, i, i + 1), {b, heads, t, head});
    if (i == 0) part = multiply(part, constant_like(part, 1.0 / std::sqrt(static_cast<double>(head))));
    r.push_back(convert(part, e));
  }
  return r;
}

// The inference path of nn.MultiheadAttention and nn.TransformerEncoderLayer.
Results native_multi_head_attention(Op& op) {
  const int64_t heads = op.integer("num_head"), embedding = op.integer("embed_dim");
  const Dims& dims = op.dims("query");
  const int64_t b = dims.at(0), t = dims.at(1), head = embedding / heads;
  const ElementType e = op.element("query"), compute = opmath_type(e);
  Builder& builder = op.builder();
  const Dims score_dims{b, heads, t, t};
  if (b * t == 0) {
    Dims weight_dims = op.boolean("average_attn_weights") ? Dims{b, t, t} : score_dims;
    return {constant(builder, e, 0, dims), op.boolean("need_weights") ? constant(builder, e, 0, weight_dims) : Value{}};
  }
  const char* names[3] = {"query", "key", "value"};
  Value weight = op.tensor("qkv_weight"), bias = op.tensor("qkv_bias", compute);
  Value parts[3];
  for (int64_t i = 0; i < 3; ++i) {
    Value x = reshape(op.tensor(names[i]), {b * t, embedding});
    Value rows = slice_dim(weight, 0, i * embedding, (i + 1) * embedding);
    x = contract(op, x, rows, {{}, {}, {1}, {1}});
    x = add(x, like(x, slice_dim(bias, 0, i * embedding, (i + 1) * embedding)));
    if (i == 0) x = multiply(x, constant_like(x, 1.0 / std::sqrt(static_cast<double>(head))));
    x = stablehlo::transpose(reshape(convert(x, e), {b, t, heads, head}), {0, 2, 1, 3});
    parts[i] = reshape(x, {b * heads, t, head});
  }
  Value scores = reshape(contract(op, parts[0], parts[1], {{0}, {0}, {2}, {2}}), score_dims);
  if (op.has("mask")) {
    // true leaves out; [t, t] for all heads, [b, t] for keys (type 1), or the scores' own dims.
    Value mask = op.tensor("mask", ElementType::kPred);
    const bool keys = mask.rank() == 2 && op.integer_or("mask_type", -1) == 1;
    mask = keys ? broadcast_in_dim(mask, score_dims, {0, 3}) : broadcast_to(mask, score_dims);
    scores = select(mask, lowest(builder, compute, score_dims), scores);
  }
  auto over_keys = [&](Value rows) { return broadcast_in_dim(rows, score_dims, {0, 1, 2}); };
  Value exponent = exponential(subtract(scores, over_keys(reduce_max(scores, {3}))));
  Value p = convert(divide(exponent, over_keys(reduce_sum(exponent, {3}))), e);
  Value context = batch_product(op, reshape(p, {b * heads, t, t}), parts[2]);
  context = stablehlo::transpose(reshape(convert(context, e), {b, heads, t, head}), {0, 2, 1, 3});
  Value out = contract(op, reshape(context, {b * t, embedding}), op.tensor("proj_weight"), {{}, {}, {1}, {1}});
  out = convert(reshape(add(out, like(out, op.tensor("proj_bias", compute))), dims), e);
  if (!op.boolean("need_weights")) return {out, Value{}};
  if (!op.boolean("average_attn_weights")) return {out, p};
  Value mean = sum_opmath(p, {1});
  return {out, convert(divide(mean, constant_like(mean, heads)), e)};
}

}  // namespace

void register_attention(Registry& r) {
  r.add("_scaled_dot_product_fused_attention_overrideable", attention_forward);
  r.add("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward).structural({"dropout_p"});
  r.add("_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu).structural({"dropout_p"});
  r.add("_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_for_cpu_backward)
      .structural({"dropout_p"});
  r.add("_transform_bias_rescale_qkv", transform_bias_rescale_qkv);
  r.add("_native_multi_head_attention", native_multi_head_attention);
}

}  // namespace torch_tpu::lowering
