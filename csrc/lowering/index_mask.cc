// Masked reads and writes. Where elements of one tensor pair with the true elements of a mask in order, the pairing is
// by prefix sums of the mask, so that shapes stay static.
#include "lowering/indexing.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

Value bool_mask(Op& op, const char* what) {
  Value mask = op.tensor("mask");
  if (!is_bool(mask.element()))
    throw CallError(std::string(what) + " only supports boolean masks, but got mask with dtype " +
                    name_of(mask.element()));
  return mask;
}

Value masked_fill(Op& op) {
  Value mask = bool_mask(op, "masked_fill_"), self = op.tensor("self");
  if (op.is_tensor("value") && op.rank("value") != 0)
    throw CallError("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with " +
                    std::to_string(op.rank("value")) + " dimension(s).");
  Value value = operand(op, "value", self.element());
  broadcast_all({&self, &mask});
  return select(mask, like(self, value), self);
}

Value masked_scatter(Op& op) {
  Value mask = bool_mask(op, "masked_scatter_"), self = op.tensor("self"), source = flatten(op.tensor("source"));
  if (source.element() != self.element())
    throw CallError(std::string("masked_scatter: expected self and source to have same dtypes but got ") +
                    name_of(self.element()) + " and " + name_of(source.element()));
  broadcast_all({&self, &mask});
  if (self.numel() == 0) return self;
  Value flat = flatten(mask), rank = exclusive_rank(flat);
  // More true elements than elements of source.
  Value bad = logical_and(flat, greater_equal(rank, constant_like(rank, source.numel())));
  op.context().report_out_of_bounds(reduce_or(bad, {0}));
  if (source.numel() == 0) return self;
  return select(mask, reshape(take(source, rank, 0), self.dims()), self);
}

// Moves x[i] to the place of i among the true elements of mask; the others are dropped.
Value compact(Value base, Value mask, Value x) {
  Value place = exclusive_rank(mask);
  place = select(mask, place, constant_like(place, base.numel()));
  return scatter_slices(base, 0, place, x, keep_update);
}

Value masked_scatter_backward(Op& op) {
  Value grad = op.tensor("grad_output"), mask = op.tensor("mask");
  broadcast_all({&grad, &mask});
  const Dims& sizes = op.integers("sizes");
  Value base = zeros(op.builder(), grad.element(), {TensorType{grad.element(), sizes}.numel()});
  return reshape(compact(base, flatten(mask), flatten(grad)), sizes);
}

// Flat positions of the first `size` true elements, `fill` where there are no more.
Value true_positions(Value self, int64_t size, int64_t fill) {
  Builder& b = self.builder();
  const ElementType type = index_type(self.numel());
  Value mask = flatten(convert(self, ElementType::kPred));
  return compact(constant(b, type, fill, {size}), mask, iota(b, type, mask.dims(), 0));
}

// Coordinates of the first `count` true elements, all of dimension 0, then all of dimension 1 and so on, as the CPU's
// nonzero lays them out. Room for `size` of them.
Value nonzero_columns(Op& op) {
  Value self = op.tensor("self");
  const int64_t size = op.integer("size"), rank = self.rank();
  Builder& b = op.builder();
  Value position = true_positions(self, size, 0);
  const ElementType type = position.element();
  Value k = iota(b, type, {rank * size}, 0);
  auto [dim, nth] = divide_integers(op.target(), k, broadcast_to(op.scalar("count", type), k.dims()));
  dim = minimum(dim, constant_like(dim, rank - 1));
  const auto of_dim = [&](const Dims& values) { return take(constant_vector(b, type, values), dim, 0); };
  Value outer = divide_integers(op.target(), take(position, nth, 0), of_dim(contiguous_strides(self.dims()))).quotient;
  return convert(divide_integers(op.target(), outer, of_dim(self.dims())).remainder, ElementType::kS64);
}

Value nonzero_static(Op& op) {
  Value self = op.tensor("self");
  const int64_t size = op.integer("size"), rank = self.rank(), n = self.numel();
  Value fill = op.scalar("fill_value", ElementType::kS64);
  if (rank == 0 || n == 0 || size == 0) return broadcast_to(fill, {size, rank});
  Value position = true_positions(self, size, -1);
  Value missing = less(position, constant_like(position, 0));
  const Dims strides = contiguous_strides(self.dims());
  std::vector<Value> coordinates;
  for (size_t d = 0; d < strides.size(); ++d) {
    const auto by = [&](Value v, int64_t n) { return divide_integers(op.target(), v, constant_like(v, n)); };
    Value c = strides[d] == 1 ? position : by(position, strides[d]).quotient;
    if (d > 0) c = by(c, self.dims()[d]).remainder;
    c = select(missing, broadcast_to(fill, {size}), convert(c, ElementType::kS64));
    coordinates.push_back(reshape(c, {size, 1}));
  }
  return concatenate(coordinates, 1);
}

}  // namespace

void register_index_mask(Registry& r) {
  r.add("masked_fill.Scalar", masked_fill);
  r.add("masked_fill.Tensor", masked_fill);
  r.add("masked_scatter", masked_scatter);
  r.add("masked_scatter_backward", masked_scatter_backward);
  r.add("nonzero_static", nonzero_static).runtime({"fill_value"});
  r.add_internal("tpu.nonzero", nonzero_columns).runtime({"count"});
}

}  // namespace torch_tpu::lowering
