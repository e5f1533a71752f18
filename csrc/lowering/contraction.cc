#include "lowering/contraction.h"

namespace torch_tpu::lowering {

ElementType accumulation_type(const Op& op, ElementType t) {
  if (is_bool(t)) throw Unsupported(op.name() + ": not implemented for 'Bool'");
  if (is_integer(t) && byte_size(t) < 4) return is_unsigned_integer(t) ? ElementType::kU32 : ElementType::kS32;
  return opmath_type(t);
}

Value contract(const Op& op, Value lhs, Value rhs, const stablehlo::DotDims& dims) {
  using namespace stablehlo;
  const ElementType t = lhs.element(), accumulate = accumulation_type(op, t);
  if (is_integer(t) || (op.target().is_cpu() && is_reduced_float(t))) {
    // XLA's CPU dots of narrow types take no wider result everywhere; integers are exact either way.
    lhs = convert(lhs, accumulate);
    rhs = convert(rhs, accumulate);
  }
  // Reduced floats are exact in one pass; the setting is about f32.
  const DotPrecision precision = is_reduced_float(t) ? DotPrecision::kDefault
                                 : t == ElementType::kF32 || t == ElementType::kC64 ? op.numerics().matmul_precision
                                                                                     : DotPrecision::kHighest;
  return dot_general(lhs, rhs, dims, precision, accumulate);
}

}  // namespace torch_tpu::lowering
