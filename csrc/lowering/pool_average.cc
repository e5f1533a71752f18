// Average pooling: sums dimension by dimension, divided by what each window counts.
#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/pool.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// Sums over the windows of dimension i of w, which is dimension `dim` of x.
Value sum_stage(Value x, int64_t dim, size_t i, const SlidingWindow& w) {
  const int64_t kernel = w.kernel[i], stride = w.stride[i];
  if (kernel == stride && w.low[i] == 0 && w.output[i] * kernel == w.input[i]) {
    Dims tiles = x.dims();
    tiles[static_cast<size_t>(dim)] = w.output[i];
    tiles.insert(tiles.begin() + dim + 1, kernel);
    return reduce_sum(reshape(x, tiles), {dim + 1});
  }
  Dims low(x.dims().size(), 0), high = low;
  low[static_cast<size_t>(dim)] = w.low[i];
  high[static_cast<size_t>(dim)] = (w.output[i] - 1) * stride + kernel - w.input[i] - w.low[i];
  Resampling r;
  r.input = (w.output[i] - 1) * stride + kernel;
  for (int64_t o = 0; o < w.output[i]; ++o) {
    r.taps.emplace_back();
    for (int64_t t = 0; t < kernel; ++t) r.taps.back().push_back({o * stride + t, 1});
  }
  return resample(pad(x, constant(x.builder(), x.element(), 0), low, high), dim, r);
}

// The transpose: each input element sums the windows that hold it.
Value spread_stage(Value grad, int64_t dim, size_t i, const SlidingWindow& w) {
  Resampling r;
  r.input = w.input[i];
  for (int64_t o = 0; o < w.output[i]; ++o) {
    r.taps.emplace_back();
    const int64_t start = o * w.stride[i] - w.low[i];
    for (int64_t t = std::max<int64_t>(start, 0); t < std::min(start + w.kernel[i], w.input[i]); ++t)
      r.taps.back().push_back({t, 1});
  }
  return resample(grad, dim, transposed(r));
}

// What the sums of each window are divided by, in x's dims.
Value divisor(const Op& op, Value sums, const SlidingWindow& w) {
  Builder& b = sums.builder();
  if (op.has("divisor_override")) return constant_like(sums, op.integer("divisor_override"));
  const bool with_padding = op.boolean("count_include_pad");
  Value product;
  for (size_t i = 0; i < w.rank(); ++i) {
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < w.output[i]; ++o) {
      int64_t start = o * w.stride[i] - w.low[i], end = std::min(start + w.kernel[i], w.input[i] + w.low[i]);
      if (!with_padding) {
        start = std::max<int64_t>(start, 0);
        end = std::min(end, w.input[i]);
      }
      counts.push_back(std::max<int64_t>(end - start, 1));  // a window without input sums to 0
    }
    const int64_t dim = sums.rank() - static_cast<int64_t>(w.rank() - i);
    const bool uniform = std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
    Value along = uniform ? constant_like(sums, counts[0])
                          : broadcast_in_dim(convert(constant_vector(b, ElementType::kS32, counts), sums.element()),
                                             sums.dims(), {dim});
    product = product.defined() ? multiply(product, along) : along;
  }
  return product;
}

void check_type(const Op& op, ElementType t) {
  if (!is_floating(t) && t != ElementType::kS64)
    throw Unsupported(op.name() + ": not implemented for '" + name_of(t) + "'");
}

Value avg_pool(Op& op, size_t n) {
  const ElementType t = op.element("self");
  check_type(op, t);
  const SlidingWindow w = pool_window(op, op.dims("self"), n);
  const Dims result = with_spatial(op.dims("self"), w.output);
  if (TensorType{t, result}.numel() == 0) return constant(op.builder(), t, 0, result);
  Value x = op.tensor("self", opmath_type(t));
  for (size_t i = n; i-- > 0;) x = sum_stage(x, x.rank() - static_cast<int64_t>(n - i), i, w);
  Value d = divisor(op, x, w);
  return convert(is_integer(t) ? divide_integers(op.target(), x, d).quotient : divide(x, d), t);
}

Value avg_pool_backward(Op& op, size_t n) {
  const ElementType t = op.element("grad_output");
  check_type(op, t);
  const Dims& input = op.dims("self");
  const SlidingWindow w = pool_window(op, input, n);
  Value grad = op.tensor("grad_output", opmath_type(t));
  if (grad.numel() == 0) return constant(op.builder(), t, 0, input);
  Value d = divisor(op, grad, w);
  grad = is_integer(t) ? divide_integers(op.target(), grad, d).quotient : divide(grad, d);
  for (size_t i = 0; i < n; ++i) grad = spread_stage(grad, grad.rank() - static_cast<int64_t>(n - i), i, w);
  return convert(grad, t);
}

Value avg_pool2d(Op& op) { return avg_pool(op, 2); }
Value avg_pool3d(Op& op) { return avg_pool(op, 3); }
Value avg_pool2d_backward(Op& op) { return avg_pool_backward(op, 2); }
Value avg_pool3d_backward(Op& op) { return avg_pool_backward(op, 3); }

}  // namespace

void register_pool_average(Registry& r) {
  r.add("avg_pool2d", avg_pool2d);
  r.add("avg_pool3d", avg_pool3d);
  r.add("avg_pool2d_backward", avg_pool2d_backward);
  r.add("avg_pool3d_backward", avg_pool3d_backward);
}

}  // namespace torch_tpu::lowering
