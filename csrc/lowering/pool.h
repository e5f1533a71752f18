// Arguments of pooling ops.
#pragma once

#include "lowering/windows.h"

namespace torch_tpu::lowering {

// The windows of a pooling call over the last `n` dims of `input`: kernel_size, stride, padding, dilation, ceil_mode.
SlidingWindow pool_window(const Op& op, const Dims& input, size_t n);
// `dims` with its last dims replaced.
Dims with_spatial(const Dims& dims, const Dims& spatial);
// Elements of one plane, and how many planes there are.
int64_t plane_elements(const Dims& spatial);
int64_t plane_count(const Dims& dims, size_t n);
// The gradient of values that were picked by flat indices: summed where they came from.
Value gradient_by_index(Value grad, Value indices, const Dims& input, size_t n);

}  // namespace torch_tpu::lowering
