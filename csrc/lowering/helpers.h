// What many families need: type promotion, broadcasting, dims. ATen's rules, on element types.
#pragma once

#include <initializer_list>

#include "lowering/op.h"

namespace torch_tpu::lowering {

// c10::promoteTypes.
ElementType promote(ElementType a, ElementType b);
// at::result_type over the named arguments (tensors and scalars; absent ones are skipped): dims > 0-dim > numbers.
ElementType common_type(const Op& op, std::initializer_list<std::string_view> args);
// The same, with integers and bool going to the default float (ATen's "float" ops: sin, true division).
ElementType common_float_type(const Op& op, std::initializer_list<std::string_view> args);
inline ElementType to_float(const Op& op, ElementType t) {
  return is_floating(t) || is_complex(t) ? t : op.numerics().default_float;
}

// The named argument, tensor or scalar, in type `as`; not broadcast.
Value operand(const Op& op, std::string_view arg, ElementType as);

Dims broadcast_dims(const Dims& a, const Dims& b);
void broadcast_all(std::initializer_list<Value*> values);
// y in the dims of x; y may be rank 0 or broadcastable.
inline Value like(Value x, Value y) { return stablehlo::broadcast_to(y, x.dims()); }

// Negative dims count from the end; a 0-dim tensor has one dim to name. Out of range throws CallIndexError.
int64_t wrap_dim(int64_t dim, int64_t rank);
Dims wrap_dims(const Dims& dims, int64_t rank);
// Dims to reduce: all for an empty or absent list. Sorted, unique.
Dims reduction_dims(const Op& op, std::string_view arg, int64_t rank);
Dims all_dims(int64_t rank);
// Puts size-1 dims back where `dims` were reduced away.
Value keep_dims(Value reduced, const Dims& original, const Dims& dims);
Dims contiguous_strides(const Dims& dims);
// x reshaped to one dimension.
inline Value flatten(Value x) { return stablehlo::reshape(x, {x.numel()}); }
// 0-dim values as one-element vectors, so that code for dims >= 1 serves both.
inline Value at_least_1d(Value x) { return x.rank() == 0 ? stablehlo::reshape(x, {1}) : x; }

// Sum in opmath (f32 for reduced floats), left in the opmath type.
Value sum_opmath(Value x, const Dims& dims);

}  // namespace torch_tpu::lowering
