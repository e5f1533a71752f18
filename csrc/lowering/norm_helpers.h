// Moments and affine steps that the normalizations share.
#pragma once

#include <initializer_list>

#include "lowering/helpers.h"

namespace torch_tpu::lowering {

// 1 / sqrt(x): TPUs have it as one instruction; elsewhere the two steps that ATen takes.
Value inverse_sqrt(const Op& op, Value x);

// Product of the sizes of `dims`, as a divisor.
Value mean_of(Value sum, const Dims& full, const Dims& dims);

// v, whose dims are the dims `kept` of `full`, broadcast to `full`.
inline Value spread(Value v, const Dims& full, const Dims& kept) { return stablehlo::broadcast_in_dim(v, full, kept); }
// The dims of a rank that are not in `dims`.
Dims other_dims(int64_t rank, const Dims& dims);

// The type that statistics and parameters have: that of the first argument given, else of `input`.
ElementType parameter_type(const Op& op, std::initializer_list<std::string_view> args);

// Gradient of y = (x - mean) * rstd with mean and rstd over `dims`: rstd * (g - mean(g) - xhat * mean(g * xhat)).
// `rstd` has the kept dims.
Value normalized_gradient(Value g, Value xhat, Value rstd, const Dims& dims);

}  // namespace torch_tpu::lowering
