// Advanced indexing: index.Tensor and index_put in their forms.
#include <algorithm>

#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// The index tensors of one call as gather and scatter take them.
struct AdvancedIndex {
  Value vectors;     // broadcast index dims, then one dim over the indexed dims of self
  Dims indexed;      // the dims of self that have an index tensor
  Dims window;       // the dims of the result that come from dims of self without one
  Dims slice_sizes;  // 1 on indexed dims
  Dims result;       // dims of self[indices]
  int64_t index_rank = 0;
};

AdvancedIndex advanced_index(Op& op, const Dims& self, std::string_view arg, IndexRule rule) {
  AdvancedIndex a;
  const std::vector<std::optional<Value>> given = op.optional_tensors(arg);
  if (given.size() > self.size())
    throw CallIndexError("too many indices for tensor of dimension " + std::to_string(self.size()) + " (got " +
                         std::to_string(given.size()) + ")");
  std::vector<Value> indices;
  Dims index_dims;
  a.slice_sizes = self;
  bool wide = false;
  for (size_t d = 0; d < given.size(); ++d) {
    if (!given[d]) continue;
    indices.push_back(checked_index(op, *given[d], self[d], rule));
    wide |= indices.back().element() == ElementType::kS64;
    index_dims = broadcast_dims(index_dims, indices.back().dims());
    a.indexed.push_back(static_cast<int64_t>(d));
    a.slice_sizes[d] = 1;
  }
  a.index_rank = static_cast<int64_t>(index_dims.size());
  // Index dims stand where the indexed dims were if these are adjacent, else first.
  const bool adjacent =
      a.indexed.empty() || a.indexed.back() - a.indexed.front() + 1 == static_cast<int64_t>(a.indexed.size());
  const int64_t at = adjacent && !a.indexed.empty() ? a.indexed.front() : 0;
  for (size_t d = 0; d < self.size(); ++d)
    if (d >= given.size() || !given[d]) a.result.push_back(self[d]);
  a.result.insert(a.result.begin() + at, index_dims.begin(), index_dims.end());
  for (int64_t d = 0; d < static_cast<int64_t>(a.result.size()); ++d)
    if (d < at || d >= at + a.index_rank) a.window.push_back(d);
  if (indices.empty()) return a;
  Dims column = index_dims;
  column.push_back(1);
  for (Value& index : indices) {
    if (wide) index = convert(index, ElementType::kS64);
    index = reshape(broadcast_to(index, index_dims), column);
  }
  a.vectors = concatenate(indices, a.index_rank);
  return a;
}

Value read(Value self, const AdvancedIndex& a) {
  if (a.indexed.empty()) return self;
  if (TensorType{self.element(), a.result}.numel() == 0) return zeros(self.builder(), self.element(), a.result);
  GatherDims g;
  g.offset_dims = a.window;
  g.collapsed_slice_dims = g.start_index_map = a.indexed;
  g.index_vector_dim = a.index_rank;
  return gather(self, a.vectors, g, a.slice_sizes);
}

Value write(Value self, const AdvancedIndex& a, Value values, bool accumulate) {
  values = broadcast_to(convert(values, self.element()), a.result);
  if (values.numel() == 0) return self;
  if (a.indexed.empty()) return accumulate ? self + values : values;
  ScatterDims s;
  s.update_window_dims = a.window;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = a.indexed;
  s.index_vector_dim = a.index_rank;
  if (!accumulate) return scatter(self, a.vectors, values, s, keep_update);
  return scatter_sum(self, values, [&](Value base, Value updates, const Combine& combine) {
    return scatter(base, a.vectors, updates, s, combine);
  });
}

Value index(Op& op) {
  return read(op.tensor("self"), advanced_index(op, op.dims("self"), "indices", IndexRule::kWrap));
}

Value unsafe_index(Op& op) {
  return read(op.tensor("self"), advanced_index(op, op.dims("self"), "indices", IndexRule::kTrustedWrap));
}

Value put_by(Op& op, IndexRule rule) {
  return write(op.tensor("self"), advanced_index(op, op.dims("self"), "indices", rule), op.tensor("values"),
               op.boolean("accumulate"));
}

Value index_put(Op& op) { return put_by(op, IndexRule::kWrap); }

Value index_put_impl(Op& op) { return put_by(op, op.boolean("unsafe") ? IndexRule::kTrustedWrap : IndexRule::kWrap); }

Value unsafe_index_put(Op& op) { return put_by(op, IndexRule::kTrustedWrap); }

// An empty self has nothing to clamp to: no index of its empty dims is looked at.
AdvancedIndex masked_index(Op& op, const Dims& self) {
  Dims dims = self;
  if (op.type("self").numel() == 0)
    for (int64_t& d : dims) d = std::max<int64_t>(d, 1);
  return advanced_index(op, dims, "indices", IndexRule::kClampedWrap);
}

Value unsafe_masked_index(Op& op) {
  Value self = op.tensor("self");
  AdvancedIndex a = masked_index(op, self.dims());
  Value fill = broadcast_to(op.scalar("fill", self.element()), a.result);
  if (self.numel() == 0) return fill;
  return select(broadcast_to(op.tensor("mask"), a.result), read(self, a), fill);
}

Value unsafe_masked_index_put_accumulate(Op& op) {
  Value self = op.tensor("self");
  if (self.numel() == 0) return self;
  AdvancedIndex a = masked_index(op, self.dims());
  Value values = broadcast_to(op.tensor("values", self.element()), a.result);
  values = select(broadcast_to(op.tensor("mask"), a.result), values, constant_like(values, 0));
  return write(self, a, values, true);
}

}  // namespace

void register_index(Registry& r) {
  r.add("index.Tensor", index);
  r.add("_unsafe_index.Tensor", unsafe_index);
  r.add("index_put", index_put);
  r.add("_index_put_impl", index_put_impl);
  r.add("_unsafe_index_put", unsafe_index_put);
  r.add("_unsafe_masked_index", unsafe_masked_index);
  r.add("_unsafe_masked_index_put_accumulate", unsafe_masked_index_put_accumulate);
  register_index_dim(r);
  register_index_mask(r);
  register_index_backward(r);
}

}  // namespace torch_tpu::lowering
