// Variance, standard deviation and vector norms.
#include <algorithm>
#include <cmath>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

bool flag(const Op& op, std::string_view arg) { return op.has(arg) && op.boolean(arg); }

int64_t count_of(const Dims& of, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= of[static_cast<size_t>(d)];
  return n;
}

// Mean over `dims`, kept as dims of 1.
Value mean_kept(Value x, const Dims& dims, int64_t n) {
  Value s = reduce_sum(x, dims);
  return keep_dims(s / constant_like(s, n), x.dims(), dims);
}

// (variance or standard deviation, mean) in the opmath type. Two passes: exact where one pass cancels.
std::pair<Value, Value> variance_and_mean(const Op& op, bool root) {
  Value x = op.tensor("self", opmath_type(op.element("self")));
  const Dims dims = reduction_dims(op, "dim", x.rank());
  const int64_t n = count_of(x.dims(), dims);
  const double correction = op.has("correction") ? op.constant_real("correction") : 1;
  const double divisor = std::max(static_cast<double>(n) - correction, 0.0);
  auto squares = [&](Value part, Value mean) {
    Value centered = part - broadcast_to(mean, part.dims());
    return reduce_sum(centered * centered, dims);
  };
  Value mean, sum;
  if (is_complex(x.element())) {
    Value re = mean_kept(real(x), dims, n), im = mean_kept(imag(x), dims, n);
    mean = complex(re, im);
    sum = squares(real(x), re) + squares(imag(x), im);
  } else {
    mean = mean_kept(x, dims, n);
    sum = squares(x, mean);
  }
  Value variance = sum / constant_like(sum, divisor);
  if (root) variance = sqrt(variance);
  mean = reshape(mean, variance.dims());
  if (flag(op, "keepdim")) {
    variance = keep_dims(variance, x.dims(), dims);
    mean = keep_dims(mean, x.dims(), dims);
  }
  const ElementType out = op.element("self");
  return {convert(variance, real_type(out)), convert(mean, out)};
}

Value var(Op& op) { return variance_and_mean(op, false).first; }
Value std_deviation(Op& op) { return variance_and_mean(op, true).first; }
Results var_mean(Op& op) {
  auto [variance, mean] = variance_and_mean(op, false);
  return {variance, mean};
}
Results std_mean(Op& op) {
  auto [deviation, mean] = variance_and_mean(op, true);
  return {deviation, mean};
}

// The p-norm over "dim"; without `root` the sum of powers.
Value vector_norm(Op& op, double p, bool root = true) {
  const ElementType type = op.dtype("dtype").value_or(op.element("self"));
  const ElementType out = real_type(type);
  Value x = op.tensor("self", type);
  const Dims dims = reduction_dims(op, "dim", x.rank());
  Value a = magnitude(op.target(), convert(x, opmath_type(type)));
  Value result;
  if ((std::isinf(p) || p < 0) && count_of(x.dims(), dims) == 0)
    throw CallError("linalg.vector_norm cannot compute the " + std::string(std::isinf(p) ? "infinity" : "negative") +
                    " norm on an empty tensor because the operation does not have an identity");
  if (std::isinf(p)) {
    result = p > 0 ? reduce_max(a, dims) : reduce_min(a, dims);
  } else if (p == 0) {
    result = reduce_sum(convert(not_equal(a, constant_like(a, 0)), a.element()), dims);
  } else if (p == 1) {
    result = reduce_sum(a, dims);
  } else if (p == 2) {
    result = reduce_sum(a * a, dims);
    if (root) result = sqrt(result);
  } else {
    result = reduce_sum(power(a, constant_like(a, p)), dims);
    if (root) result = power(result, constant_like(result, 1 / p));
  }
  if (flag(op, "keepdim")) result = keep_dims(result, x.dims(), dims);
  return convert(result, out);
}

Value linalg_vector_norm(Op& op) { return vector_norm(op, op.constant_real("ord")); }
Value linalg_powsum(Op& op) { return vector_norm(op, op.constant_real("ord"), false); }
Value norm(Op& op) { return vector_norm(op, op.has("p") ? op.constant_real("p") : 2); }

}  // namespace

void register_reduce_statistics(Registry& r) {
  r.add("var.correction", var).structural({"correction"});
  r.add("std.correction", std_deviation).structural({"correction"});
  r.add("var_mean.correction", var_mean).structural({"correction"});
  r.add("std_mean.correction", std_mean).structural({"correction"});
  r.add("linalg_vector_norm", linalg_vector_norm).structural({"ord"});
  r.add("linalg__powsum", linalg_powsum).structural({"ord"});
  r.add("norm.Scalar", norm).structural({"p"});
  r.add("norm.ScalarOpt_dim", norm).structural({"p"});
  r.add("norm.ScalarOpt_dtype", norm).structural({"p"});
  r.add("norm.ScalarOpt_dim_dtype", norm).structural({"p"});
}

}  // namespace torch_tpu::lowering
