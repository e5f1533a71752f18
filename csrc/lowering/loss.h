// What the loss families share.
#pragma once

#include "lowering/op.h"

namespace torch_tpu::lowering {

// at::Reduction
enum class Reduction { kNone = 0, kMean = 1, kSum = 2 };
inline Reduction reduction_of(const Op& op) { return static_cast<Reduction>(op.integer("reduction")); }

// The mean of no elements is NaN, their sum 0.
Value reduce_loss(Value loss, Reduction reduction);

}  // namespace torch_tpu::lowering
