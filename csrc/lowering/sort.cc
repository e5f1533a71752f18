// sort, topk, searchsorted, bucketize, isin.
#include "lowering/sort.h"

#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

Sorted sort_with_indices(Value x, int64_t dim, bool descending) {
  Value i = iota(x.builder(), index_type(x.dims().at(static_cast<size_t>(dim))), x.dims(), dim);
  const Value xs[2] = {x, i};
  std::vector<Value> r = sort(xs, dim, true, [&](std::span<const Value> a) {
    Value before = descending ? greater(a[0], a[1]) : less(a[0], a[1]);
    if (!is_floating(a[0].element())) return before;
    Value first = descending ? is_nan(a[0]) : is_nan(a[1]), second = descending ? is_nan(a[1]) : is_nan(a[0]);
    return logical_or(before, logical_and(first, logical_not(second)));
  });
  return {r[0], r[1]};
}

Value search_rows(Value sequence, Value values, bool right, bool nan_is_largest) {
  Builder& b = values.builder();
  const int64_t rows = sequence.dim(0), n = sequence.dim(1);
  const ElementType index = index_type(sequence.numel());
  Value zero = constant(b, index, 0, values.dims());
  if (n == 0 || values.numel() == 0) return zero;
  Value flat = flatten(sequence);
  Value base = iota(b, index, values.dims(), 0) * constant_like(zero, n);
  if (rows == 1) base = zero;
  // After k halvings at most n / 2^k candidates are left.
  int64_t steps = 0;
  while ((n >> steps) > 0) ++steps;
  const Value init[4] = {constant(b, ElementType::kS32, 0), zero, constant_like(zero, n), values};
  std::vector<Value> state = while_loop(
      init, [&](std::span<const Value> s) { return less(s[0], constant_like(s[0], steps)); },
      [&](std::span<const Value> s) {
        Value low = s[1], high = s[2], v = s[3];
        Value middle = low + shift_right_logical(high - low, constant_like(low, 1));
        // A finished search (low == high == n) reads in range too.
        Value read = minimum(middle, constant_like(low, n - 1));
        Value element = take(flat, base + read, 0);
        Value passes;
        if (!nan_is_largest || !is_floating(v.element())) {
          passes = logical_not(right ? greater(element, v) : greater_equal(element, v));
        } else if (right) {
          passes = logical_or(is_nan(v), less_equal(element, v));
        } else {
          passes = logical_or(less(element, v), logical_and(is_nan(v), logical_not(is_nan(element))));
        }
        Value open = less(low, high);
        return std::vector<Value>{s[0] + constant_like(s[0], 1),
                                  select(logical_and(open, passes), middle + constant_like(low, 1), low),
                                  select(logical_and(open, logical_not(passes)), middle, high), v};
      });
  return state[1];
}

namespace {

Results sort_op(Op& op) {
  Value x = op.tensor("self");
  if (is_complex(x.element())) throw Unsupported("Sort does not support complex dtypes on CPU");
  const int64_t dim = wrap_dim(op.integer("dim"), x.rank());
  const Dims dims = x.dims();
  Sorted s = sort_with_indices(at_least_1d(x), dim, op.boolean("descending"));
  return {reshape(s.values, dims), convert(reshape(s.indices, dims), ElementType::kS64)};
}

Results topk(Op& op) {
  Value x = op.tensor("self");
  const int64_t dim = wrap_dim(op.integer("dim"), x.rank()), k = op.integer("k");
  Dims dims = x.dims();
  Value v = at_least_1d(x);
  if (k < 0 || k > v.dims()[static_cast<size_t>(dim)]) throw CallError("selected index k out of range");
  // Sorted output is right whether or not it is asked for. A 0-dim tensor gives its element even for k = 0.
  Sorted s = sort_with_indices(v, dim, op.boolean("largest"));
  const int64_t taken = dims.empty() ? 1 : k;
  if (!dims.empty()) dims[static_cast<size_t>(dim)] = k;
  return {reshape(slice_dim(s.values, dim, 0, taken), dims),
          convert(reshape(slice_dim(s.indices, dim, 0, taken), dims), ElementType::kS64)};
}

std::string text(const Dims& dims) { return bracket_list(dims); }

// The values `query` (tensor or number) in the sorted last dim of `sequence`.
Value search(Op& op, std::string_view sequence_name, std::string_view query_name) {
  const ElementType type = common_type(op, {sequence_name, query_name});
  Value sequence = op.tensor(sequence_name, type), query = operand(op, query_name, type);
  bool right = op.boolean("right");
  if (op.has("side")) {
    const std::string& side = op.string("side");
    if (side != "left" && side != "right")
      throw CallError("torch.searchsorted(): side can only be 'left' or 'right' but got " + side);
    if (right && side == "left")
      throw CallError(
          "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
    right = side == "right";
  }
  if (sequence.rank() == 0)
    throw CallError("torch.searchsorted(): input value can be a scalar only when boundary tensor dimension is 1");
  const Dims sequence_dims = sequence.dims(), query_dims = query.dims();
  const int64_t n = sequence_dims.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < sequence_dims.size(); ++i) rows *= sequence_dims[i];
  if (sequence.rank() != 1) {
    bool fits = query_dims.size() == sequence_dims.size();
    for (size_t i = 0; fits && i + 1 < query_dims.size(); ++i) fits = query_dims[i] == sequence_dims[i];
    if (query.rank() == 0)
      throw CallError(
          "torch.searchsorted(): input value can be a scalar only when boundary tensor dimension is 1, but we got "
          "boundaries tensor dim(" +
          std::to_string(sequence.rank()) + ") and input value's dim(0) numel(1)");
    if (!fits)
      throw CallError(
          "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
          "tensor "
          "and input value tensor must match, but we got boundaries tensor " +
          text(sequence_dims) + " and input value tensor " + text(query_dims));
  }
  if (op.has("sorter")) {
    if (op.dims("sorter") != sequence_dims)
      throw CallError("torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor " +
                      text(sequence_dims) + "and got sorter tensor " + text(op.dims("sorter")));
    Value order = reshape(op.tensor("sorter"), {rows, n});
    if (order.element() != ElementType::kS64)
      throw CallError(std::string("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype ") +
                      name_of(order.element()));
    Value zero = constant_like(order, 0), last = constant_like(order, n - 1);
    if (order.numel() > 0) {
      op.context().report_out_of_bounds(reduce_or(logical_or(less(order, zero), greater(order, last)), {0, 1}));
      order = minimum(maximum(order, zero), last) +
              iota(op.builder(), order.element(), {rows, n}, 0) * constant_like(order, n);
      sequence = take(flatten(sequence), order, 0);
    }
  }
  const int64_t m = rows == 0 ? 0 : query.numel() / rows;
  Value found = search_rows(reshape(sequence, {rows, n}), reshape(query, {rows, m}), right, false);
  return convert(reshape(found, query_dims), op.boolean("out_int32") ? ElementType::kS32 : ElementType::kS64);
}

Value searchsorted(Op& op) { return search(op, "sorted_sequence", "self"); }

Value bucketize(Op& op) {
  if (op.rank("boundaries") != 1)
    throw CallError("boundaries tensor must be 1 dimension, but got dim(" + std::to_string(op.rank("boundaries")) +
                    ")");
  return search(op, "boundaries", "self");
}

Value isin_of(Op& op, std::string_view elements_name, std::string_view tests_name) {
  const ElementType type = common_type(op, {elements_name, tests_name});
  if (is_bool(type) || is_complex(type))
    throw CallError(std::string("Unsupported input type encountered for isin(): ") + name_of(type));
  Value elements = operand(op, elements_name, type), tests = flatten(operand(op, tests_name, type));
  const Dims dims = elements.dims();
  const int64_t n = elements.numel(), m = tests.numel();
  // All pairs cost n * m but no sort; from about this size a sort and a search are cheaper.
  constexpr int64_t kAllPairs = 64;
  Value found;
  if (n == 0 || m == 0) {
    found = constant(op.builder(), ElementType::kPred, false, dims);
  } else if (m <= kAllPairs) {
    Value pairs = equal(broadcast_in_dim(flatten(elements), {n, m}, {0}), broadcast_in_dim(tests, {n, m}, {1}));
    found = reshape(reduce_or(pairs, {1}), dims);
  } else {
    Value sorted = sort_with_indices(tests, 0, false).values, flat = flatten(elements);
    Value at = reshape(search_rows(reshape(sorted, {1, m}), reshape(flat, {1, n}), false, true), {n});
    // Past the end compares with the last element, which is smaller.
    at = minimum(at, constant_like(at, m - 1));
    found = reshape(equal(take(sorted, at, 0), flat), dims);
  }
  return op.boolean("invert") ? logical_not(found) : found;
}

Value isin_tensor_tensor(Op& op) { return isin_of(op, "elements", "test_elements"); }
Value isin_tensor_scalar(Op& op) { return isin_of(op, "elements", "test_element"); }
Value isin_scalar_tensor(Op& op) { return isin_of(op, "element", "test_elements"); }

}  // namespace

void register_sort(Registry& r) {
  r.add("sort", sort_op);
  r.add("sort.stable", sort_op);
  r.add("topk", topk);
  r.add("searchsorted.Tensor", searchsorted);
  r.add("searchsorted.Scalar", searchsorted);
  r.add("bucketize.Tensor", bucketize);
  r.add("bucketize.Scalar", bucketize);
  r.add("isin.Tensor_Tensor", isin_tensor_tensor);
  r.add("isin.Tensor_Scalar", isin_tensor_scalar);
  r.add("isin.Scalar_Tensor", isin_scalar_tensor);
}

}  // namespace torch_tpu::lowering
