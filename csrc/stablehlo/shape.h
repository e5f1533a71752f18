// Ops that move elements without computing on them. Dims and permutations as in the StableHLO spec.
#pragma once

#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo {

Value reshape(Value x, const Dims& dims);
Value transpose(Value x, const Dims& permutation);
// dimensions[i] is the result dimension that operand dimension i maps to.
Value broadcast_in_dim(Value x, const Dims& dims, const Dims& dimensions);
// NumPy broadcasting: dims of x are aligned with the last dims of the result.
Value broadcast_to(Value x, const Dims& dims);
Value slice(Value x, const Dims& start, const Dims& limit, const Dims& stride = {});
// One dimension of x; the others stay whole. `stride` > 0.
Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
// starts: rank-0 integers of one type, one a dimension. XLA clamps them into range.
Value dynamic_slice(Value x, std::span<const Value> starts, const Dims& sizes);
Value dynamic_update_slice(Value x, Value update, std::span<const Value> starts);
// Negative low/high crop.
Value pad(Value x, Value fill, const Dims& low, const Dims& high, const Dims& interior = {});
Value concatenate(std::span<const Value> xs, int64_t dim);
Value reverse(Value x, const Dims& dims);

struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims, start_index_map;
  int64_t index_vector_dim = 0;
};
Value gather(Value operand, Value start_indices, const GatherDims& dims, const Dims& slice_sizes,
             bool indices_are_sorted = false);
// result[..., i, ...] = x[..., indices[i], ...]: indices of any rank replace dimension `dim`. Out of range clamps.
Value take(Value x, Value indices, int64_t dim);

struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
};
// `combine` maps (old, update) to the new value, rank 0 each. Indices out of range are skipped.
using Combine = std::function<Value(Value, Value)>;
Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims, const Combine& combine,
              bool unique_indices = false);
std::vector<Value> scatter_many(std::span<const Value> operands, Value indices, std::span<const Value> updates,
                                const ScatterDims& dims, const RegionBody& combine, bool unique_indices = false);

}  // namespace torch_tpu::stablehlo
