// Ops with regions or contractions: reductions, windows, sort, control flow, dots, convolutions, FFT, linear algebra,
// random bits, custom calls.
#pragma once

#include "stablehlo/builder.h"
#include "stablehlo/shape.h"

namespace torch_tpu::stablehlo {

// The region of a reduction of one array. `combine` must outlive it.
RegionBody two_argument_body(const Combine& combine);
// Reduces `dims` away. `combine` is associative; `init` is rank 0.
Value reduce(Value x, Value init, const Dims& dims, const Combine& combine);
// Several arrays at once: the region gets (accumulators..., elements...), rank 0 each, and returns accumulators.
std::vector<Value> reduce_many(std::span<const Value> xs, std::span<const Value> inits, const Dims& dims,
                               const RegionBody& body);
// The same over one dimension, in steps where the builder says so (reduce.cc): `inits` change nothing.
std::vector<Value> reduce_dim(std::span<const Value> xs, std::span<const Value> inits, int64_t dim,
                              const RegionBody& body);
// The usual reductions, in steps where the builder says so.
Value reduce_sum(Value x, const Dims& dims);
Value reduce_product(Value x, const Dims& dims);
Value reduce_max(Value x, const Dims& dims);  // NaN wins
Value reduce_min(Value x, const Dims& dims);
Value reduce_and(Value x, const Dims& dims);  // bool
Value reduce_or(Value x, const Dims& dims);

struct Window {
  Dims dimensions, strides, base_dilations, window_dilations;  // one entry a dimension; empty = ones
  std::vector<std::pair<int64_t, int64_t>> padding;            // empty = none
};
Value reduce_window(Value x, Value init, const Window& window, const Combine& combine);
std::vector<Value> reduce_window_many(std::span<const Value> xs, std::span<const Value> inits, const Window& window,
                                      const RegionBody& body);
// `select` picks (a, b) -> bool; the source is scattered to the selected elements by `combine`.
Value select_and_scatter(Value operand, Value source, Value init, const Window& window, const Combine& select,
                         const Combine& combine);

// Stable sort of several arrays by one comparator over (a0, b0, a1, b1, ...), rank 0 each; returns bool.
std::vector<Value> sort(std::span<const Value> xs, int64_t dim, bool stable,
                        const std::function<Value(std::span<const Value>)>& less);

// while (condition(state)) state = body(state)
std::vector<Value> while_loop(std::span<const Value> init,
                              const std::function<Value(std::span<const Value>)>& condition, const RegionBody& body);
std::vector<Value> if_then_else(Value predicate, const std::function<std::vector<Value>()>& on_true,
                                const std::function<std::vector<Value>()>& on_false);

enum class DotPrecision { kDefault, kHigh, kHighest };
struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};
// Result dims: batch, free dims of lhs, free dims of rhs. `result` is the accumulation type (default: that of lhs).
Value dot_general(Value lhs, Value rhs, const DotDims& dims, DotPrecision precision,
                  ElementType result = ElementType::kInvalid);

struct ConvolutionDims {
  // e.g. NCHW x OIHW -> NCHW: input {0, 1, {2, 3}}, kernel {0: output feature, 1: input feature, {2, 3}}, output as
  // input
  int64_t input_batch = 0, input_feature = 1, kernel_output_feature = 0, kernel_input_feature = 1, output_batch = 0,
          output_feature = 1;
  Dims input_spatial, kernel_spatial, output_spatial;
  Dims window_strides, lhs_dilation, rhs_dilation;
  std::vector<std::pair<int64_t, int64_t>> padding;
  std::vector<bool> window_reversal;  // empty = none
  int64_t feature_group_count = 1, batch_group_count = 1;
};
Value convolution(Value lhs, Value rhs, const ConvolutionDims& dims, DotPrecision precision,
                  ElementType result = ElementType::kInvalid);

enum class FftType { kFft, kIfft, kRfft, kIrfft };
Value fft(Value x, FftType type, const Dims& length);
Value cholesky(Value a, bool lower);
enum class Transpose { kNone, kTranspose, kAdjoint };
Value triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal, Transpose transpose_a);

// Philox 4x32-10. `state` is ui64[2] (key, counter); returns (next state, bits of ui32 or ui64).
std::pair<Value, Value> rng_bit_generator(Value state, ElementType bits, const Dims& dims);

std::vector<Value> top_k(Value x, int64_t k);  // chlo.top_k over the last dim: (values, i32 indices)

// `backend_config` is the text of a dictionary attribute, e.g. `{n = 3 : i64}` (typed FFI, api_version 4).
std::vector<Value> custom_call(std::string_view target, std::span<const Value> operands,
                               std::span<const TensorType> results, std::string_view backend_config = "{}",
                               bool has_side_effect = false);
std::vector<Value> optimization_barrier(std::span<const Value> xs);

}  // namespace torch_tpu::stablehlo
