#include "lowering/indexing.h"

#include "lowering/math.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

Value zeros(Builder& b, ElementType type, const Dims& dims) { return constant(b, type, 0, dims); }

Value checked_index(Op& op, Value index, int64_t n, IndexRule rule) {
  if (is_bool(index.element())) throw Unsupported("bool masks as indices");
  const ElementType type = index_type(n);
  if (index.numel() == 0) return convert(index, type);
  if (n == 0) throw CallIndexError("index is out of bounds for dimension with size 0");
  // A narrower type could not hold n; a wider one is compared before it is narrowed.
  if (byte_size(index.element()) < byte_size(type)) index = convert(index, type);
  Value zero = constant_like(index, 0), size = constant_like(index, n);
  if (rule == IndexRule::kClampedWrap) {
    index = clamp(constant(op.builder(), index.element(), -n), index, constant(op.builder(), index.element(), n - 1));
  } else if (rule != IndexRule::kTrustedWrap) {
    Value low = rule == IndexRule::kWrap ? constant_like(index, -n) : zero;
    Value bad = logical_or(less(index, low), greater_equal(index, size));
    op.context().report_out_of_bounds(reduce_or(bad, all_dims(bad.rank())));
  }
  if (rule != IndexRule::kReject) index = select(less(index, zero), index + size, index);
  return convert(index, type);
}

Value index_vectors(Value index, int64_t dim) {
  const int64_t rank = index.rank();
  Dims column = index.dims();
  column.push_back(1);
  std::vector<Value> coordinates;
  for (int64_t d = 0; d < rank; ++d)
    coordinates.push_back(d == dim ? reshape(index, column) : iota(index.builder(), index.element(), column, d));
  return concatenate(coordinates, rank);
}

Value gather_elements(Value x, int64_t dim, Value index) {
  if (index.numel() == 0 || x.numel() == 0) return zeros(x.builder(), x.element(), index.dims());
  if (x.rank() == 1) return take(x, index, 0);
  GatherDims g;
  g.collapsed_slice_dims = g.start_index_map = all_dims(x.rank());
  g.index_vector_dim = x.rank();
  return gather(x, index_vectors(index, dim), g, Dims(x.dims().size(), 1));
}

Value keep_update(Value, Value update) { return update; }

Value scatter_elements(Value x, int64_t dim, Value index, Value updates, const Combine& combine) {
  if (updates.numel() == 0) return x;
  ScatterDims s;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = all_dims(x.rank());
  s.index_vector_dim = x.rank();
  return scatter(x, index_vectors(index, dim), updates, s, combine);
}

Value scatter_slices(Value x, int64_t dim, Value index, Value updates, const Combine& combine) {
  if (updates.numel() == 0) return x;
  ScatterDims s;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != dim) s.update_window_dims.push_back(d);
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {dim};
  s.index_vector_dim = 1;
  return scatter(x, index, updates, s, combine);
}

Value scatter_sum(Value self, Value updates, const ScatterInto& scatter_into) {
  const ElementType type = opmath_type(self.element());
  return convert(scatter_into(convert(self, type), convert(updates, type), add), self.element());
}

namespace {

// XLA's CPU backend loses a NaN update in a scatter by maximum or minimum; comparisons it must keep.
Value nan_maximum(Value old, Value update) {
  return select(logical_or(is_nan(old), greater(old, update)), old, update);
}
Value nan_minimum(Value old, Value update) { return select(logical_or(is_nan(old), less(old, update)), old, update); }

}  // namespace

Value scatter_reduction(const Target& target, Value self, Value updates, const std::string& reduce, bool include_self,
                        const ScatterInto& scatter_into) {
  Builder& b = self.builder();
  const bool mean = reduce == "mean";
  const ElementType type = opmath_type(self.element());
  Combine combine;
  Value identity;
  if (mean || reduce == "sum") {
    combine = add;
    identity = constant(b, type, 0);
  } else if (reduce == "prod") {
    combine = multiply;
    identity = constant(b, type, 1);
  } else if (reduce == "amax") {
    combine = nan_maximum;
    identity = lowest(b, type);
  } else if (reduce == "amin") {
    combine = nan_minimum;
    identity = highest(b, type);
  } else {
    throw CallError("reduce argument must be either sum, prod, mean, amax or amin, got " + reduce);
  }
  Value base = convert(self, type);
  updates = convert(updates, type);
  if (!include_self) base = scatter_into(base, broadcast_to(identity, updates.dims()), keep_update);
  Value result = scatter_into(base, updates, combine);
  if (mean) {
    Value count = constant(b, ElementType::kS32, include_self ? 1 : 0, self.dims());
    count = scatter_into(count, constant(b, ElementType::kS32, 1, updates.dims()), add);
    count = convert(maximum(count, constant_like(count, 1)), type);
    result = is_integer(type) ? floor_divide(target, result, count) : divide(result, count);
  }
  return convert(result, self.element());
}

Value prefix_sum(Value x) {
  if (x.numel() <= 1) return x;
  return inclusive_scan(x, constant(x.builder(), x.element(), 0), 0, add);
}

Value exclusive_rank(Value mask) {
  Value ones = convert(mask, index_type(mask.numel()));
  return prefix_sum(ones) - ones;
}

}  // namespace torch_tpu::lowering
