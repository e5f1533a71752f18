// Dense strides of results, as PyTorch has them.
#pragma once

#include "runtime/call.h"
#include "stablehlo/builder.h"

namespace torch_tpu::runtime {

using stablehlo::Dims;

// Of matrices whose columns are contiguous; empty below two dims.
Dims column_major_strides(const Dims& dims);
// c10's rule, with its way out of the ambiguity that dims of size one bring.
bool is_channels_last(const TensorRef& t);
Dims channels_last_strides(const Dims& dims);
// Dims from the largest stride to the smallest. Empty strides: row-major.
Dims stride_order(const Dims& sizes, const Dims& strides);

}  // namespace torch_tpu::runtime
