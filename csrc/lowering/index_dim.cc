// Indexing along one dim by one index tensor: index_select, gather, take, put, index_add and their kin.
#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// self and dim of an op whose index is a vector along `dim`; a 0-dim self counts as one element.
struct AlongDim {
  Value self;
  int64_t dim;
  Value index;
};

AlongDim along_dim(Op& op, IndexRule rule) {
  AlongDim a;
  a.self = at_least_1d(op.tensor("self"));
  a.dim = wrap_dim(op.integer("dim"), a.self.rank());
  if (op.rank("index") > 1) throw CallIndexError("Index is supposed to be a vector or a scalar");
  a.index = checked_index(op, at_least_1d(op.tensor("index")), a.self.dim(static_cast<int>(a.dim)), rule);
  return a;
}

// `source` in the dims that scattering along a.dim takes.
Value source_slices(const AlongDim& a, Value source) {
  Dims dims = a.self.dims();
  dims[static_cast<size_t>(a.dim)] = a.index.numel();
  return reshape(source, dims);
}

ScatterInto into_slices(const AlongDim& a) {
  return [&a](Value base, Value updates, const Combine& combine) {
    return scatter_slices(base, a.dim, a.index, updates, combine);
  };
}

Value index_select(Op& op) {
  AlongDim a = along_dim(op, IndexRule::kReject);
  Dims dims = a.self.dims();
  dims[static_cast<size_t>(a.dim)] = a.index.numel();
  const TensorType type{a.self.element(), dims};
  Value result = type.numel() == 0 ? zeros(op.builder(), type.element, dims) : take(a.self, a.index, a.dim);
  return op.rank("self") == 0 ? reshape(result, {}) : result;
}

Value gather(Op& op) {
  Value self = at_least_1d(op.tensor("self"));
  const int64_t dim = wrap_dim(op.integer("dim"), self.rank());
  Value index = at_least_1d(op.tensor("index"));
  if (index.numel() == 0) return zeros(op.builder(), self.element(), op.dims("index"));
  index = checked_index(op, index, self.dim(static_cast<int>(dim)), IndexRule::kReject);
  return reshape(gather_elements(self, dim, index), op.dims("index"));
}

Value take_flat(Op& op) {
  Value self = flatten(op.tensor("self"));
  Value index = checked_index(op, op.tensor("index"), self.numel(), IndexRule::kWrap);
  if (index.numel() == 0) return zeros(op.builder(), self.element(), index.dims());
  return take(self, index, 0);
}

Value put(Op& op) {
  Value self = op.tensor("self"), flat = flatten(self);
  Value index = flatten(checked_index(op, op.tensor("index"), flat.numel(), IndexRule::kWrap));
  Value source = flatten(op.tensor("source", self.element()));
  ScatterInto into = [&](Value base, Value updates, const Combine& combine) {
    return scatter_slices(base, 0, index, updates, combine);
  };
  Value result = op.boolean("accumulate") ? scatter_sum(flat, source, into) : into(flat, source, keep_update);
  return reshape(result, self.dims());
}

Value index_add(Op& op) {
  AlongDim a = along_dim(op, IndexRule::kReject);
  const ElementType type = opmath_type(a.self.element());
  Value source = source_slices(a, op.tensor("source", type));
  if (!op.scalar_equals("alpha", 1)) source = source * like(source, op.scalar("alpha", type));
  return reshape(scatter_sum(a.self, source, into_slices(a)), op.dims("self"));
}

Value index_copy(Op& op) {
  AlongDim a = along_dim(op, IndexRule::kReject);
  Value source = source_slices(a, op.tensor("source", a.self.element()));
  return reshape(into_slices(a)(a.self, source, keep_update), op.dims("self"));
}

// A mask over the dim, and one select over self: cheaper than scattering slices.
Value index_fill(Op& op) {
  AlongDim a = along_dim(op, IndexRule::kWrap);
  if (a.index.numel() == 0) return op.tensor("self");
  const int64_t n = a.self.dim(static_cast<int>(a.dim));
  Value mask = scatter_slices(constant(op.builder(), ElementType::kPred, false, {n}), 0, a.index,
                              constant(op.builder(), ElementType::kPred, true, a.index.dims()), keep_update);
  Value value = reshape(operand(op, "value", a.self.element()), {});
  Value result = select(broadcast_in_dim(mask, a.self.dims(), {a.dim}), like(a.self, value), a.self);
  return reshape(result, op.dims("self"));
}

Value index_reduce(Op& op) {
  AlongDim a = along_dim(op, IndexRule::kReject);
  if (op.string("reduce") == "sum") throw CallError("index_reduce(): reduce argument must be prod, mean, amax or amin");
  Value source = source_slices(a, op.tensor("source", a.self.element()));
  if (source.numel() == 0) return op.tensor("self");
  Value result =
      scatter_reduction(op.target(), a.self, source, op.string("reduce"), op.boolean("include_self"), into_slices(a));
  return reshape(result, op.dims("self"));
}

}  // namespace

void register_index_dim(Registry& r) {
  r.add("index_select", index_select);
  r.add("gather", gather);
  r.add("take", take_flat);
  r.add("put", put);
  r.add("index_add", index_add);
  r.add("index_copy", index_copy);
  r.add("index_fill.int_Scalar", index_fill);
  r.add("index_fill.int_Tensor", index_fill);
  r.add("index_reduce", index_reduce);
}

}  // namespace torch_tpu::lowering
