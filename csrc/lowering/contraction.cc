#include "lowering/contraction.h"

#include <algorithm>

namespace torch_tpu::lowering {

ElementType accumulation_type(const Op& op, ElementType t) {
  if (is_bool(t)) throw Unsupported(op.name() + ": not implemented for 'Bool'");
  if (is_integer(t) && byte_size(t) < 4) return is_unsigned_integer(t) ? ElementType::kU32 : ElementType::kS32;
  return opmath_type(t);
}

namespace {

// The dot as a product in full dims and a sum, for element types that the TPU's dot lacks. XLA fuses the two.
Value multiply_and_sum(Value lhs, Value rhs, const stablehlo::DotDims& d) {
  using namespace stablehlo;
  auto contains = [](const Dims& dims, int64_t v) { return std::find(dims.begin(), dims.end(), v) != dims.end(); };
  // Result dims: batch, free dims of lhs, free dims of rhs; contracted ones follow.
  Dims dims, lhs_at(lhs.dims().size()), rhs_at(rhs.dims().size()), summed;
  auto append = [&](Value x, Dims& at, int64_t i) {
    at[static_cast<size_t>(i)] = static_cast<int64_t>(dims.size());
    dims.push_back(x.dims()[static_cast<size_t>(i)]);
  };
  for (size_t i = 0; i < d.lhs_batch.size(); ++i) {
    rhs_at[static_cast<size_t>(d.rhs_batch[i])] = static_cast<int64_t>(dims.size());
    append(lhs, lhs_at, d.lhs_batch[i]);
  }
  for (int64_t i = 0; i < lhs.rank(); ++i)
    if (!contains(d.lhs_batch, i) && !contains(d.lhs_contract, i)) append(lhs, lhs_at, i);
  for (int64_t i = 0; i < rhs.rank(); ++i)
    if (!contains(d.rhs_batch, i) && !contains(d.rhs_contract, i)) append(rhs, rhs_at, i);
  for (size_t i = 0; i < d.lhs_contract.size(); ++i) {
    summed.push_back(static_cast<int64_t>(dims.size()));
    rhs_at[static_cast<size_t>(d.rhs_contract[i])] = static_cast<int64_t>(dims.size());
    append(lhs, lhs_at, d.lhs_contract[i]);
  }
  // broadcast_in_dim wants the operand's dims in ascending result order.
  auto spread = [&](Value x, const Dims& at) {
    Dims order(at.size()), ascending = at;
    std::sort(ascending.begin(), ascending.end());
    for (size_t i = 0; i < at.size(); ++i) order[i] = std::find(at.begin(), at.end(), ascending[i]) - at.begin();
    return broadcast_in_dim(transpose(x, order), dims, ascending);
  };
  return reduce_sum(multiply(spread(lhs, lhs_at), spread(rhs, rhs_at)), summed);
}

}  // namespace

Value contract(const Op& op, Value lhs, Value rhs, const stablehlo::DotDims& dims) {
  using namespace stablehlo;
  const ElementType t = lhs.element(), accumulate = accumulation_type(op, t);
  if (is_integer(t) || (op.target().is_cpu() && is_reduced_float(t))) {
    // XLA's CPU dots of narrow types take no wider result everywhere; integers are exact either way.
    lhs = convert(lhs, accumulate);
    rhs = convert(rhs, accumulate);
  }
  if (op.target().is_tpu() && is_integer(accumulate) && byte_size(accumulate) == 8)
    return multiply_and_sum(lhs, rhs, dims);
  // Reduced floats are exact in one pass; the setting is about f32.
  const DotPrecision precision = is_reduced_float(t)                                ? DotPrecision::kDefault
                                 : t == ElementType::kF32 || t == ElementType::kC64 ? op.numerics().matmul_precision
                                                                                    : DotPrecision::kHighest;
  return dot_general(lhs, rhs, dims, precision, accumulate);
}

}  // namespace torch_tpu::lowering
