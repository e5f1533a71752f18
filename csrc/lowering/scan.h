// Running reductions along one dimension, used by several families.
#pragma once

#include <span>

#include "lowering/op.h"

namespace torch_tpu::lowering {

// result[i] = x[0] + ... + x[i] along `dim` under the associative region `combine` (earlier..., later...) with its
// identities (rank 0, one a value). All values have equal dims of rank >= 1.
std::vector<Value> inclusive_scan(const Target& target, std::span<const Value> xs, std::span<const Value> identities,
                                  int64_t dim, const stablehlo::RegionBody& combine);
// The same for add, multiply, maximum and minimum.
Value inclusive_scan(Value x, Value identity, int64_t dim, const stablehlo::Combine& combine);

// The index type that counts along a dim of `size` elements: 32 bits where they are enough.
inline ElementType index_type(int64_t size) {
  return size < (int64_t{1} << 31) - 1 ? ElementType::kS32 : ElementType::kS64;
}

}  // namespace torch_tpu::lowering
