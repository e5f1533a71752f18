// The usual reductions, and the forms that XLA's CPU compiler runs well.
//
// Left to itself, it rewrites every large reduction as reductions of windows, for which it first writes the operand to
// memory. The session turns that rewriting off (Session::compile_options), and reductions are cut here instead: over
// the last dimension into rows, which are summed in vectors, with what makes the operand in the same loop; over others
// into windows, which are combined in vectors along the last dimension. Both keep the chains of dependent additions
// short, so that sums of many terms are nearly as exact as ATen's pairwise ones.
#include <algorithm>

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"
#include "stablehlo/structured.h"

namespace torch_tpu::stablehlo {
namespace {

constexpr int64_t kLarge = 2048;   // elements of an array that is worth it
constexpr int64_t kRow = 1024;     // elements of the last dimensions in one chain
constexpr int64_t kShortRow = 64;  // not worth a step of its own
constexpr int64_t kWindow = 32;    // elements of another dimension in one chain

// XLA would join two reductions into one again.
Value apart(Value x) { return optimization_barrier(std::span<const Value>(&x, 1))[0]; }

// x with dims [first, last] as one.
Value joined(Value x, int64_t first, int64_t last) {
  Dims shape(x.dims().begin(), x.dims().begin() + first + 1);
  for (int64_t d = first + 1; d <= last; ++d) shape.back() *= x.dim(static_cast<int>(d));
  shape.insert(shape.end(), x.dims().begin() + last + 1, x.dims().end());
  return reshape(x, shape);
}

// Reduces the last dimension away.
Value reduce_rows(Value x, Value init, const Combine& combine) {
  const int64_t last = x.rank() - 1, size = x.dims().back();
  if (size <= 2 * kRow) return reduce(x, init, {last}, combine);
  const int64_t rows = size / kRow;
  Dims shape = x.dims();
  shape.back() = rows;
  shape.push_back(kRow);
  Value sums = reduce(reshape(slice_dim(x, last, 0, rows * kRow), shape), init, {last + 1}, combine);
  Value result = reduce_rows(apart(sums), init, combine);
  if (size % kRow == 0) return result;
  return combine(result, reduce(slice_dim(x, last, rows * kRow, size), init, {last}, combine));
}

// Takes trailing dimensions off `dims` and reduces them away, as many as make one row. Rows of other parts than whole
// dimensions would cost a division an element.
Value reduce_trailing(Value x, Value init, Dims& dims, const Combine& combine) {
  const int64_t last = x.rank() - 1;
  int64_t first = x.rank(), size = 1;
  while (!dims.empty() && dims.back() == first - 1) {
    const int64_t longer = size * x.dim(static_cast<int>(dims.back()));
    if (first <= last && longer > 2 * kRow && size >= kShortRow) break;
    size = longer;
    first = dims.back();
    dims.pop_back();
  }
  return reduce_rows(joined(x, first, last), init, combine);
}

// Reduces a dimension that is not the last one away.
std::vector<Value> reduce_columns(std::vector<Value> xs, std::span<const Value> inits, int64_t dim,
                                  const RegionBody& body) {
  const auto d = static_cast<size_t>(dim);
  for (int64_t size; (size = xs[0].dims()[d]) > 1;) {
    const int64_t length = std::min(size, kWindow);
    Window window;
    window.dimensions.assign(xs[0].dims().size(), 1);
    window.dimensions[d] = length;
    window.strides = window.dimensions;
    window.padding.assign(xs[0].dims().size(), {0, 0});
    window.padding[d].second = (length - size % length) % length;
    xs = reduce_window_many(xs, inits, window, body);
  }
  Dims shape = xs[0].dims();
  shape.erase(shape.begin() + dim);
  for (Value& x : xs) x = reshape(x, shape);
  return xs;
}

Value reduce_in_steps(Value x, Value init, Dims dims, const Combine& combine) {
  if (!x.builder().reduce_in_steps() || x.numel() < kLarge) return reduce(x, init, dims, combine);
  std::sort(dims.begin(), dims.end());
  while (!dims.empty()) {
    if (dims.back() == x.rank() - 1) {
      x = reduce_trailing(x, init, dims, combine);
    } else {
      const int64_t last = dims.back();
      int64_t first = last;
      for (; !dims.empty() && dims.back() == first; --first) dims.pop_back();
      ++first;
      x = reduce_columns({joined(x, first, last)}, std::span<const Value>(&init, 1), first,
                         two_argument_body(combine))[0];
    }
    if (!dims.empty()) x = apart(x);
  }
  return x;
}

}  // namespace

std::vector<Value> reduce_dim(std::span<const Value> xs, std::span<const Value> inits, int64_t dim,
                              const RegionBody& body) {
  const bool columns = xs[0].builder().reduce_in_steps() && xs[0].numel() >= kLarge && dim != xs[0].rank() - 1;
  return columns ? reduce_columns({xs.begin(), xs.end()}, inits, dim, body) : reduce_many(xs, inits, {dim}, body);
}

Value reduce_sum(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_in_steps(x, constant(x.builder(), x.element(), 0), dims, add);
}
Value reduce_product(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_in_steps(x, constant(x.builder(), x.element(), 1), dims, multiply);
}
Value reduce_max(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_in_steps(x, lowest(x.builder(), x.element()), dims, maximum);
}
Value reduce_min(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_in_steps(x, highest(x.builder(), x.element()), dims, minimum);
}
Value reduce_and(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_in_steps(x, constant(x.builder(), x.element(), true), dims, logical_and);
}
Value reduce_or(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_in_steps(x, constant(x.builder(), x.element(), false), dims, logical_or);
}

}  // namespace torch_tpu::stablehlo
