// Max unpooling and fractional max pooling.
#include "lowering/pool.h"

#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

Value max_unpool(Op& op, size_t n) {
  Value x = op.tensor("self"), indices = op.tensor("indices");
  const Dims output = expand_ints(op.integers("output_size"), n);
  const int64_t planes = plane_count(x.dims(), n), size = plane_elements(output);
  const Dims result = with_spatial(x.dims(), output);
  if (x.numel() == 0) return constant(op.builder(), x.element(), 0, result);
  Value bad =
      logical_or(less(indices, constant_like(indices, 0)), greater_equal(indices, constant_like(indices, size)));
  op.context().report_out_of_bounds(reduce_or(bad, all_dims(bad.rank())));
  return reshape(scatter_planes(x, indices, planes, size, [](Value, Value update) { return update; }), result);
}

// Starts of the pooling windows of each plane: [planes, output], from one random sample a plane.
Value fractional_starts(Value sample, int64_t input, int64_t output, int64_t kernel) {
  Builder& b = sample.builder();
  const int64_t planes = sample.numel();
  const Dims dims{planes, output};
  Value last = constant(b, ElementType::kS32, input - kernel, dims);
  if (output == 1) return last;
  const ElementType t = sample.element();
  sample = broadcast_in_dim(reshape(sample, {planes}), dims, {0});
  // The quotient in the sample's own type, as ATen.
  Value alpha = divide(constant(b, t, input - kernel, dims), constant(b, t, output - 1, dims));
  Value at = convert(multiply(add(iota(b, t, dims, 1), sample), alpha), ElementType::kS32);
  Value start = subtract(at, convert(multiply(sample, alpha), ElementType::kS32));
  Value step = iota(b, ElementType::kS32, dims, 1);
  return select(equal(step, constant_like(step, output - 1)), last, start);
}

// x [planes, spatial...] at indices [planes, count] along `dim`.
Value take_each(Value x, Value indices, int64_t dim) {
  GatherDims g;
  Dims sizes = x.dims();
  sizes[0] = sizes[static_cast<size_t>(dim)] = 1;
  for (int64_t i = 1; i < x.rank(); ++i)
    if (i != dim) g.offset_dims.push_back(i);
  // The indices' own dim becomes result dim 1 unless moved: gather, then put it in place.
  for (size_t i = 0; i < g.offset_dims.size(); ++i) g.offset_dims[i] = static_cast<int64_t>(i) + 2;
  g.operand_batching_dims = {0};
  g.start_indices_batching_dims = {0};
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = 2;
  Value y = gather(x, indices, g, sizes);
  Dims permutation{0};
  int64_t next = 2;
  for (int64_t i = 1; i < x.rank(); ++i) permutation.push_back(i == dim ? 1 : next++);
  return stablehlo::transpose(y, permutation);
}

Results fractional_max_pool(Op& op, size_t n) {
  Builder& b = op.builder();
  Value x = op.tensor("self");
  const Dims dims = x.dims(), input(dims.end() - static_cast<int64_t>(n), dims.end());
  const Dims kernel = expand_ints(op.integers("kernel_size"), n), output = expand_ints(op.integers("output_size"), n);
  const Dims result = with_spatial(dims, output);
  if (TensorType{x.element(), result}.numel() == 0)
    return {constant(b, x.element(), 0, result), constant(b, ElementType::kS64, 0, result)};
  const int64_t planes = plane_count(dims, n);
  Dims flat{planes};
  flat.insert(flat.end(), input.begin(), input.end());
  // Without a batch dim, only the first of the batch's samples counts.
  const auto spatial = static_cast<int64_t>(n);
  Value samples = op.tensor("random_samples", opmath_type(x.element()));
  samples = slice_dim(reshape(samples, {samples.type().numel() / spatial, spatial}), 0, 0, planes);
  const ElementType index_type = plane_index_type(plane_elements(input));
  Best best{reshape(x, flat), {}};
  int64_t plane_stride = 1;
  for (size_t i = n; i-- > 0;) {
    const int64_t dim = static_cast<int64_t>(i) + 1;
    // ATen's samples are ordered (width, height) in 2-D, (depth, height, width) in 3-D.
    const int64_t column = static_cast<int64_t>(n == 2 ? 1 - i : i);
    Value starts = fractional_starts(slice_dim(samples, 1, column, column + 1), input[i], output[i], kernel[i]);
    Best next;
    for (int64_t t = 0; t < kernel[i]; ++t) {
      Value at = add(starts, constant_like(starts, t));
      Value v = take_each(best.value, at, dim);
      Value index = multiply(broadcast_in_dim(convert(at, index_type), v.dims(), {0, dim}),
                             constant(b, index_type, plane_stride, v.dims()));
      if (best.index.defined()) index = add(index, take_each(best.index, at, dim));
      if (t == 0) {
        next = {v, index};
      } else {
        Value move = moves_on(next.value, v);
        next = {select(move, v, next.value), select(move, index, next.index)};
      }
    }
    best = next;
    plane_stride *= input[i];
  }
  return {reshape(best.value, result), reshape(convert(best.index, ElementType::kS64), result)};
}

Value fractional_max_pool_backward(Op& op, size_t n) {
  return gradient_by_index(op.tensor("grad_output"), op.tensor("indices"), op.dims("self"), n);
}

Value max_unpool2d(Op& op) { return max_unpool(op, 2); }
Value max_unpool3d(Op& op) { return max_unpool(op, 3); }
Results fractional_max_pool2d(Op& op) { return fractional_max_pool(op, 2); }
Results fractional_max_pool3d(Op& op) { return fractional_max_pool(op, 3); }
Value fractional_max_pool2d_backward(Op& op) { return fractional_max_pool_backward(op, 2); }
Value fractional_max_pool3d_backward(Op& op) { return fractional_max_pool_backward(op, 3); }

}  // namespace

void register_pool_unpool(Registry& r) {
  r.add("max_unpool2d", max_unpool2d).own_results().image_format({"self"});
  r.add("max_unpool3d", max_unpool3d);
  r.add("fractional_max_pool2d", fractional_max_pool2d);
  r.add("fractional_max_pool3d", fractional_max_pool3d);
  r.add("fractional_max_pool2d_backward", fractional_max_pool2d_backward);
  r.add("fractional_max_pool3d_backward", fractional_max_pool3d_backward);
}

}  // namespace torch_tpu::lowering
