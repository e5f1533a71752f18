#include "lowering/norm_helpers.h"

#include <algorithm>

namespace torch_tpu::lowering {

using namespace stablehlo;

Value inverse_sqrt(const Op& op, Value x) {
  return op.target().is_tpu() ? rsqrt(x) : divide(constant_like(x, 1), sqrt(x));
}

Value mean_of(Value sum, const Dims& full, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= full[static_cast<size_t>(d)];
  return divide(sum, constant_like(sum, n));
}

Dims other_dims(int64_t rank, const Dims& dims) {
  Dims kept;
  for (int64_t d = 0; d < rank; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(d);
  return kept;
}

ElementType parameter_type(const Op& op, std::initializer_list<std::string_view> args) {
  for (std::string_view arg : args)
    if (op.has(arg)) return op.element(arg);
  return op.element("input");
}

Value normalized_gradient(Value g, Value xhat, Value rstd, const Dims& dims) {
  const Dims& full = g.dims();
  const Dims kept = other_dims(g.rank(), dims);
  Value mean_g = spread(mean_of(reduce_sum(g, dims), full, dims), full, kept);
  Value mean_gx = spread(mean_of(reduce_sum(g * xhat, dims), full, dims), full, kept);
  return spread(rstd, full, kept) * (g - mean_g - xhat * mean_gx);
}

}  // namespace torch_tpu::lowering
