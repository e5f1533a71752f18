// Dots with ATen's accumulation types: what matmuls, attention and convolutions share.
#pragma once

#include "lowering/op.h"

namespace torch_tpu::lowering {

// The type that products are summed in: f32 for reduced floats, 32 bits for narrower integers (their low bits are
// right), else `t` itself. Bool has no matmul, as on CPU.
ElementType accumulation_type(const Op& op, ElementType t);

// dot_general that accumulates in, and returns, accumulation_type of the operands.
Value contract(const Op& op, Value lhs, Value rhs, const stablehlo::DotDims& dims);

// [n, k] x [k, m].
inline Value matrix_product(const Op& op, Value lhs, Value rhs) { return contract(op, lhs, rhs, {{}, {}, {1}, {0}}); }
// [b, n, k] x [b, k, m].
inline Value batch_product(const Op& op, Value lhs, Value rhs) { return contract(op, lhs, rhs, {{0}, {0}, {2}, {1}}); }

}  // namespace torch_tpu::lowering
