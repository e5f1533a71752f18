// Adaptive pooling: window o of n over a dimension of size s covers [floor(o s / n), ceil((o + 1) s / n)).
#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/pool.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

int64_t window_start(int64_t o, int64_t input, int64_t output) { return o * input / output; }
int64_t window_end(int64_t o, int64_t input, int64_t output) { return ((o + 1) * input + output - 1) / output; }

Resampling adaptive_windows(int64_t input, int64_t output) {
  Resampling r;
  r.input = input;
  for (int64_t o = 0; o < output; ++o) {
    r.taps.emplace_back();
    for (int64_t i = window_start(o, input, output); i < window_end(o, input, output); ++i)
      r.taps.back().push_back({i, 1});
  }
  return r;
}

// Each window's size along the last dims of `sums`, multiplied out.
Value window_sizes(Value sums, const Dims& input, const Dims& output) {
  Builder& b = sums.builder();
  Value product;
  for (size_t i = 0; i < input.size(); ++i) {
    std::vector<int64_t> sizes;
    for (int64_t o = 0; o < output[i]; ++o)
      sizes.push_back(window_end(o, input[i], output[i]) - window_start(o, input[i], output[i]));
    const int64_t dim = sums.rank() - static_cast<int64_t>(input.size() - i);
    Value along = input[i] % output[i] == 0
                      ? constant_like(sums, input[i] / output[i])
                      : broadcast_in_dim(convert(constant_vector(b, ElementType::kS32, sizes), sums.element()),
                                         sums.dims(), {dim});
    product = product.defined() ? multiply(product, along) : along;
  }
  return product;
}

Dims last_dims(const Dims& dims, size_t n) { return Dims(dims.end() - static_cast<int64_t>(n), dims.end()); }

Value adaptive_avg(Op& op, size_t n) {
  const ElementType t = op.element("self");
  if (!is_floating(t)) throw Unsupported(op.name() + ": not implemented for '" + name_of(t) + "'");
  const Dims input = last_dims(op.dims("self"), n), output = expand_ints(op.integers("output_size"), n);
  const Dims result = with_spatial(op.dims("self"), output);
  if (TensorType{t, result}.numel() == 0) return constant(op.builder(), t, 0, result);
  Value x = op.tensor("self", opmath_type(t));
  for (size_t i = n; i-- > 0;) {
    const int64_t dim = x.rank() - static_cast<int64_t>(n - i);
    if (input[i] % output[i] == 0) {
      Dims tiles = x.dims();
      tiles[static_cast<size_t>(dim)] = output[i];
      tiles.insert(tiles.begin() + dim + 1, input[i] / output[i]);
      x = reduce_sum(reshape(x, tiles), {dim + 1});
    } else {
      x = resample(x, dim, adaptive_windows(input[i], output[i]));
    }
  }
  return convert(divide(x, window_sizes(x, input, output)), t);
}

Value adaptive_avg_backward(Op& op, size_t n) {
  const ElementType t = op.element("grad_output");
  const Dims& dims = op.dims("self");
  Value grad = op.tensor("grad_output", opmath_type(t));
  if (grad.numel() == 0) return constant(op.builder(), t, 0, dims);
  const Dims input = last_dims(dims, n), output = last_dims(grad.dims(), n);
  grad = divide(grad, window_sizes(grad, input, output));
  for (size_t i = 0; i < n; ++i)
    grad = resample(grad, grad.rank() - static_cast<int64_t>(n - i), transposed(adaptive_windows(input[i], output[i])));
  return convert(grad, t);
}

// One dimension of adaptive max pooling.
Best max_stage(Best x, int64_t dim, int64_t output, int64_t plane_stride, ElementType index_type) {
  constexpr int64_t kMaxUnrolled = 32;
  Builder& b = x.value.builder();
  const int64_t input = x.value.dim(static_cast<int>(dim));
  Value position =
      multiply(iota(b, index_type, x.value.dims(), dim), constant(b, index_type, plane_stride, x.value.dims()));
  Value index = x.index.defined() ? add(x.index, position) : position;
  int64_t longest = 0;
  for (int64_t o = 0; o < output; ++o)
    longest = std::max(longest, window_end(o, input, output) - window_start(o, input, output));
  // Shorter windows repeat their last element, which changes nothing.
  auto at = [&](int64_t o, int64_t t) {
    return std::min(window_start(o, input, output) + t, window_end(o, input, output) - 1);
  };
  if (longest > kMaxUnrolled) {
    std::vector<int64_t> table;
    for (int64_t o = 0; o < output; ++o)
      for (int64_t t = 0; t < longest; ++t) table.push_back(at(o, t));
    Value indices = reshape(constant_vector(b, ElementType::kS32, table), {output, longest});
    return best_along({take(x.value, indices, dim), take(index, indices, dim)}, dim + 1);
  }
  Best best;
  for (int64_t t = 0; t < longest; ++t) {
    Dims positions;
    for (int64_t o = 0; o < output; ++o) positions.push_back(at(o, t));
    Value v = take_constant(x.value, dim, positions), i = take_constant(index, dim, positions);
    if (t == 0) {
      best = {v, i};
    } else {
      Value move = moves_on(best.value, v);
      best = {select(move, v, best.value), select(move, i, best.index)};
    }
  }
  return best;
}

Results adaptive_max(Op& op, size_t n) {
  Value x = op.tensor("self");
  if (!is_floating(x.element())) throw Unsupported(op.name() + ": not implemented for '" + name_of(x.element()) + "'");
  const Dims input = last_dims(x.dims(), n), output = expand_ints(op.integers("output_size"), n);
  const Dims result = with_spatial(x.dims(), output);
  if (TensorType{x.element(), result}.numel() == 0)
    return {constant(op.builder(), x.element(), 0, result), constant(op.builder(), ElementType::kS64, 0, result)};
  Best best{x, {}};
  const ElementType index_type = plane_index_type(plane_elements(input));
  int64_t plane_stride = 1;
  for (size_t i = n; i-- > 0;) {
    best = max_stage(best, x.rank() - static_cast<int64_t>(n - i), output[i], plane_stride, index_type);
    plane_stride *= input[i];
  }
  return {best.value, convert(best.index, ElementType::kS64)};
}

Value adaptive_max_backward(Op& op, size_t n) {
  return gradient_by_index(op.tensor("grad_output"), op.tensor("indices"), op.dims("self"), n);
}

Value adaptive_avg_pool2d(Op& op) { return adaptive_avg(op, 2); }
Value adaptive_avg_pool3d(Op& op) { return adaptive_avg(op, 3); }
Value adaptive_avg_pool2d_backward(Op& op) { return adaptive_avg_backward(op, 2); }
Value adaptive_avg_pool3d_backward(Op& op) { return adaptive_avg_backward(op, 3); }
Results adaptive_max_pool2d(Op& op) { return adaptive_max(op, 2); }
Results adaptive_max_pool3d(Op& op) { return adaptive_max(op, 3); }
Value adaptive_max_pool2d_backward(Op& op) { return adaptive_max_backward(op, 2); }
Value adaptive_max_pool3d_backward(Op& op) { return adaptive_max_backward(op, 3); }

}  // namespace

void register_pool_adaptive(Registry& r) {
  r.add("_adaptive_avg_pool2d", adaptive_avg_pool2d);
  r.add("_adaptive_avg_pool3d", adaptive_avg_pool3d);
  r.add("_adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward);
  r.add("_adaptive_avg_pool3d_backward", adaptive_avg_pool3d_backward);
  r.add("adaptive_max_pool2d", adaptive_max_pool2d);
  r.add("adaptive_max_pool3d", adaptive_max_pool3d);
  r.add("adaptive_max_pool2d_backward", adaptive_max_pool2d_backward);
  r.add("adaptive_max_pool3d_backward", adaptive_max_pool3d_backward);
}

}  // namespace torch_tpu::lowering
