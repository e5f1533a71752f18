// The usual reductions. XLA's CPU compiler is slow where several dimensions go at once: one chain of dependent steps,
// an element at a time. Folded, the array is cut into equal slices that are combined elementwise, in vectors, until
// little is left for the reduction itself: two or three times as fast, and sums add up pairwise, as ATen's do.
// Reductions of one dimension gain nothing.
#include <algorithm>

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"
#include "stablehlo/structured.h"

namespace torch_tpu::stablehlo {
namespace {

constexpr int64_t kLarge = 2048;  // elements of an array that is worth it
constexpr int64_t kSlices = 8;    // combined in one step
constexpr int64_t kSmall = 4;     // size of a dimension that the reduction may keep

// Puts neighbouring reduced dimensions together: one long one needs fewer steps.
void merge_neighbours(Value& x, Dims& dims) {
  Dims shape, merged;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t size = x.dim(static_cast<int>(d));
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (reduced && !merged.empty() && merged.back() == static_cast<int64_t>(shape.size()) - 1) {
      shape.back() *= size;
      continue;
    }
    if (reduced) merged.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(size);
  }
  x = reshape(x, shape);
  dims = merged;
}

int64_t slices_for(int64_t size) {
  for (int64_t n = std::min(kSlices, size); n >= kSmall; --n)
    if (size % n == 0) return n;
  return kSlices;  // with a tail
}

// Combines slices of x along `dim` until at most kSmall are left. Tails of uneven cuts are appended to `tails`.
Value fold(Value x, int64_t dim, const Combine& combine, std::vector<Value>& tails) {
  while (x.dim(static_cast<int>(dim)) > kSmall) {
    const int64_t size = x.dim(static_cast<int>(dim)), slices = slices_for(size), length = size / slices;
    std::vector<Value> level;
    for (int64_t i = 0; i < slices; ++i) level.push_back(slice_dim(x, dim, i * length, (i + 1) * length));
    if (size % slices) tails.push_back(slice_dim(x, dim, slices * length, size));
    while (level.size() > 1) {
      std::vector<Value> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(combine(level[i], level[i + 1]));
      if (level.size() % 2) next.push_back(level.back());
      level = std::move(next);
    }
    x = level[0];
  }
  return x;
}

Value reduce_folded(Value x, Value init, Dims dims, const Combine& combine) {
  if (!x.builder().fold_reductions() || dims.size() < 2 || x.numel() < kLarge) return reduce(x, init, dims, combine);
  merge_neighbours(x, dims);
  std::vector<Value> tails;
  // Outer dimensions first: the inner ones keep the vectors long.
  for (const int64_t dim : dims) x = fold(x, dim, combine, tails);
  Value result = reduce(x, init, dims, combine);
  for (const Value& tail : tails) result = combine(result, reduce(tail, init, dims, combine));
  return result;
}

}  // namespace

Value reduce_sum(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_folded(x, constant(x.builder(), x.element(), 0), dims, add);
}
Value reduce_product(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_folded(x, constant(x.builder(), x.element(), 1), dims, multiply);
}
Value reduce_max(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_folded(x, lowest(x.builder(), x.element()), dims, maximum);
}
Value reduce_min(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_folded(x, highest(x.builder(), x.element()), dims, minimum);
}
Value reduce_and(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_folded(x, constant(x.builder(), x.element(), true), dims, logical_and);
}
Value reduce_or(Value x, const Dims& dims) {
  return dims.empty() ? x : reduce_folded(x, constant(x.builder(), x.element(), false), dims, logical_or);
}

}  // namespace torch_tpu::stablehlo
