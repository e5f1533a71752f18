// Writes into a copy at the place of a view (X_scatter), and gradients of views (the same into zeros). Start indices
// are runtime values: the gradient of x[i] is one program for all i.
#include <algorithm>

#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// `update` written into base from `start` (rank 0, in range or clamped by XLA) along dim.
Value write_at(Value base, Value update, int64_t dim, Value start) {
  std::vector<Value> starts(base.dims().size(), constant(base.builder(), start.element(), 0));
  starts[static_cast<size_t>(dim)] = start;
  return dynamic_update_slice(base, update, starts);
}

// The int argument `arg` as a position in a dim of n: negative counts from the end.
Value position(Op& op, std::string_view arg, int64_t n) {
  Value v = op.scalar(arg, ElementType::kS64);
  return select(less(v, constant_like(v, 0)), v + constant_like(v, n), v);
}

Value put_selected(Op& op, Value base, Value update) {
  const int64_t dim = wrap_dim(op.integer("dim"), base.rank()), n = base.dim(static_cast<int>(dim));
  if (n == 0) throw CallIndexError("select(): index out of range for a dimension of size 0");
  Value index = position(op, "index", n);
  op.context().report_out_of_bounds(
      logical_or(less(index, constant_like(index, 0)), greater_equal(index, constant_like(index, n))));
  Dims dims = base.dims();
  dims[static_cast<size_t>(dim)] = 1;
  return write_at(base, reshape(update, dims), dim, convert(index, index_type(n)));
}

Value select_scatter(Op& op) {
  Value self = op.tensor("self");
  return put_selected(op, self, op.tensor("src", self.element()));
}

Value select_backward(Op& op) {
  Value grad = op.tensor("grad_output");
  return put_selected(op, zeros(op.builder(), grad.element(), op.integers("input_sizes")), grad);
}

// `update` written into every step-th element of base along `dim`. Without `start`, from the first.
Value put_slice(Op& op, Value base, Value update, int64_t step) {
  const int64_t dim = wrap_dim(op.integer("dim"), base.rank()), n = base.dim(static_cast<int>(dim));
  if (step < 1) throw CallError("slice step must be positive");
  if (update.numel() == 0) return base;
  Builder& b = op.builder();
  Value start = constant(b, ElementType::kS64, 0);
  if (op.has("start")) start = clamp(start, position(op, "start", n), constant(b, ElementType::kS64, n));
  start = convert(start, index_type(n));
  if (step == 1) return write_at(base, update, dim, start);
  // A window of base with the update's elements `step` apart and the old elements between them. The window is cut off
  // after the last element, so it fits.
  const Dims none(base.dims().size(), 0);
  Dims gaps = none;
  gaps[static_cast<size_t>(dim)] = step - 1;
  Value spread = pad(update, constant(b, base.element(), 0), none, none, gaps);
  Value mask = pad(constant(b, ElementType::kPred, true, update.dims()), constant(b, ElementType::kPred, false), none,
                   none, gaps);
  std::vector<Value> starts(base.dims().size(), constant(b, start.element(), 0));
  starts[static_cast<size_t>(dim)] = start;
  Value window = dynamic_slice(base, starts, spread.dims());
  return write_at(base, select(mask, spread, window), dim, start);
}

Value slice_scatter(Op& op) {
  Value self = op.tensor("self");
  return put_slice(op, self, op.tensor("src", self.element()), op.integer("step"));
}

Value slice_backward(Op& op) {
  Value grad = op.tensor("grad_output");
  return put_slice(op, zeros(op.builder(), grad.element(), op.integers("input_sizes")), grad, op.integer("step"));
}

// `update`, whose last dim runs along a diagonal of (dim1, dim2), in the place of that diagonal of base.
Value put_diagonal(Value base, Value update, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = wrap_dim(dim1, base.rank());
  dim2 = wrap_dim(dim2, base.rank());
  if (dim1 == dim2) throw CallError("diagonal dimensions cannot be identical");
  if (update.numel() == 0 || base.numel() == 0) return base;
  Builder& b = base.builder();
  // Element i of the diagonal stands in row i + low; the mask picks its column.
  const int64_t length = update.dims().back(), low = offset < 0 ? -offset : 0;
  Dims lows(update.dims().size(), 0), highs(update.dims().size(), 0);
  lows.back() = low;
  highs.back() = base.dim(static_cast<int>(dim1)) - length - low;
  Dims mapping;
  for (int64_t d = 0; d < base.rank(); ++d)
    if (d != dim1 && d != dim2) mapping.push_back(d);
  mapping.push_back(dim1);
  // broadcast_in_dim takes any order of dimensions, but transposes are not part of it.
  Value rows = pad(update, constant(b, base.element(), 0), lows, highs);
  Dims order(mapping.size()), sorted = mapping;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    order[i] = std::find(mapping.begin(), mapping.end(), sorted[i]) - mapping.begin();
  rows = broadcast_in_dim(transpose(rows, order), base.dims(), sorted);
  const Dims plane{base.dim(static_cast<int>(dim1)), base.dim(static_cast<int>(dim2))};
  Value row = iota(b, ElementType::kS32, plane, 0), column = iota(b, ElementType::kS32, plane, 1);
  Value mask = equal(column - row, constant(b, ElementType::kS32, offset, plane));
  if (dim1 > dim2) mask = transpose(mask, {1, 0});
  mask = broadcast_in_dim(mask, base.dims(), {std::min(dim1, dim2), std::max(dim1, dim2)});
  return select(mask, rows, base);
}

Value diagonal_scatter(Op& op) {
  Value self = op.tensor("self");
  return put_diagonal(self, op.tensor("src", self.element()), op.integer("offset"), op.integer("dim1"),
                      op.integer("dim2"));
}

Value diagonal_backward(Op& op) {
  Value grad = op.tensor("grad_output");
  return put_diagonal(zeros(op.builder(), grad.element(), op.integers("input_sizes")), grad, op.integer("offset"),
                      op.integer("dim1"), op.integer("dim2"));
}

Value diag_embed(Op& op) {
  Value self = op.tensor("self");
  const int64_t rank = self.rank() + 1, offset = op.integer("offset");
  const int64_t dim1 = wrap_dim(op.integer("dim1"), rank), dim2 = wrap_dim(op.integer("dim2"), rank);
  if (dim1 == dim2) throw CallError("diagonal dimensions cannot be identical");
  const int64_t n = self.dims().back() + (offset < 0 ? -offset : offset);
  Dims dims(self.dims().begin(), self.dims().end() - 1);
  dims.insert(dims.begin() + std::min(dim1, dim2), n);
  dims.insert(dims.begin() + std::max(dim1, dim2), n);
  return put_diagonal(zeros(op.builder(), self.element(), dims), self, offset, dim1, dim2);
}

// Window k starts at k * step. A window is cut into pieces of `step` elements; piece t of all windows makes one run of
// consecutive elements that starts at t * step, so the gradient is a sum of a few shifted runs.
Value unfold_backward(Op& op) {
  const Dims& sizes = op.integers("input_sizes");
  Value grad = op.tensor("grad_in");
  const int64_t size = op.integer("size"), step = op.integer("step"), rank = static_cast<int64_t>(sizes.size());
  const ElementType element = grad.element(), type = opmath_type(element);
  Builder& b = op.builder();
  if (rank == 0) return reshape(grad, {});
  const int64_t dim = wrap_dim(op.integer("dim"), rank), n = sizes[static_cast<size_t>(dim)];
  Value result = zeros(b, type, sizes), zero = constant(b, type, 0);
  if (grad.numel() == 0) return convert(result, element);
  grad = convert(grad, type);
  // The window dim, which is last, goes next to the dim of windows.
  Dims order = all_dims(rank);
  order.insert(order.begin() + dim + 1, rank);
  grad = transpose(grad, order);
  const int64_t windows = grad.dim(static_cast<int>(dim)), pieces = (size + step - 1) / step;
  constexpr int64_t kMaxPieces = 16;
  if (pieces > kMaxPieces) {  // many overlapping windows: a scatter of slices
    const ElementType it = index_type(n);
    Value index =
        iota(b, it, {windows, size}, 0) * constant(b, it, step, {windows, size}) + iota(b, it, {windows, size}, 1);
    Dims merged = sizes;
    merged[static_cast<size_t>(dim)] = windows * size;
    return convert(scatter_slices(result, dim, flatten(index), reshape(grad, merged), add), element);
  }
  Dims none(static_cast<size_t>(rank) + 1, 0), fill = none;
  fill[static_cast<size_t>(dim) + 1] = pieces * step - size;
  grad = pad(grad, zero, none, fill);
  Dims run = sizes;
  run[static_cast<size_t>(dim)] = windows * step;
  for (int64_t t = 0; t < pieces; ++t) {
    Value piece = reshape(slice_dim(grad, dim + 1, t * step, (t + 1) * step), run);
    Dims low(static_cast<size_t>(rank), 0), high = low;
    low[static_cast<size_t>(dim)] = t * step;
    high[static_cast<size_t>(dim)] = n - t * step - windows * step;  // negative: cuts off the fill
    piece = pad(piece, zero, low, high);
    result = t == 0 ? piece : result + piece;
  }
  return convert(result, element);
}

}  // namespace

void register_index_backward(Registry& r) {
  r.add("select_scatter", select_scatter).runtime({"index"});
  r.add("select_backward", select_backward).runtime({"index"});
  r.add("slice_scatter", slice_scatter).runtime({"start", "end"});
  r.add("slice_backward", slice_backward).runtime({"start", "end"});
  r.add("diagonal_scatter", diagonal_scatter);
  r.add("diagonal_backward", diagonal_backward);
  r.add("diag_embed", diag_embed);
  r.add("unfold_backward", unfold_backward);
}

}  // namespace torch_tpu::lowering
