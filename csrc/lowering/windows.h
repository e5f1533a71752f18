// Sliding windows over the last dims of a value: slices of one window position, their inverse, and resampling of one
// dimension by host-made tables. Shared by convolution, pooling, im2col, upsampling and padding.
#pragma once

#include <utility>
#include <vector>

#include "lowering/op.h"

namespace torch_tpu::lowering {

// A window in each of the last dims. `low` is the padding before; what is needed after follows from the result's size.
struct SlidingWindow {
  Dims kernel, stride, dilation, low;
  Dims input, output;  // sizes of the windowed dims

  size_t rank() const { return kernel.size(); }
  int64_t positions() const;
};

// An int[n] argument given as one number stands for all dims; empty means `otherwise`.
Dims expand_ints(const Dims& values, size_t n, const Dims& otherwise = {});
// Offsets of each kernel position, in row-major order.
std::vector<Dims> kernel_offsets(const Dims& kernel);

// x with its last dims padded by `fill` so that all windows lie inside it.
Value pad_windows(Value x, const SlidingWindow& w, Value fill);
// What kernel position `offset` sees in each window: x is pad_windows' result.
Value window_position(Value padded, const SlidingWindow& w, const Dims& offset);
// The transpose of both: values at window positions put back where they came from, zeros elsewhere.
Value unwindow_position(Value x, const SlidingWindow& w, const Dims& offset);

// x along `dim` at host-known indices: a slice, a repetition or a gather, whichever does.
Value take_constant(Value x, int64_t dim, const Dims& indices);

// result[o] = sum over taps (index, weight) of weight * x[index].
struct Resampling {
  int64_t input = 0;
  std::vector<std::vector<std::pair<int64_t, double>>> taps;  // one list an output
};
Resampling transposed(const Resampling& r);
// In x's own type, which is floating unless all weights are 1.
Value resample(Value x, int64_t dim, const Resampling& r);

// `updates` put at `indices` (s64 or s32, as many as updates) within each of `planes` planes of zeros, joined by
// `combine`: result[p, indices[p, ...]] = updates[p, ...]. Indices out of range are skipped.
Value scatter_planes(Value updates, Value indices, int64_t planes, int64_t plane_size,
                     const stablehlo::Combine& combine = stablehlo::add);

// Values with their flat index in a plane, as max pooling wants them.
struct Best {
  Value value, index;  // index: kS32 or kS64; undefined before the first stage
};
// Flat indices of planes of that many elements.
inline ElementType plane_index_type(int64_t plane_size) {
  return plane_size <= 0x7fffffff ? ElementType::kS32 : ElementType::kS64;
}
// Whether ATen's pooling moves on from `best` to a later `value`: larger, or NaN (the last NaN wins).
Value moves_on(Value best, Value value);
// The best along `dim` by ATen's rules: NaN over numbers, the last NaN, the first of equal numbers.
Best best_along(Best x, int64_t dim);

}  // namespace torch_tpu::lowering
