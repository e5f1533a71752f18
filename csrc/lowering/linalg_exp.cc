// Polynomials of matrices.
#include <cmath>

#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

// exp(a) for [batch, n, n]: Taylor's series of a / 2^s, squared s times; each matrix has its own s.
Value matrix_exponential(Value a) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), n = a.dim(1);
  const ElementType type = a.element(), real_of = real_type(type);
  Value norm = reduce_max(reduce_sum(abs(a), {1}), {1});  // [batch]
  norm = select(is_finite(norm), norm, 0.0);              // others give NaN at any s
  Value s = maximum(ceil(log(maximum(norm, constant_like(norm, smallest_normal(real_of)))) / std::log(2.0)),
                    constant_like(norm, 0));
  Value squarings = convert(s, ElementType::kS32);
  // Powers of two are exact where they are exact powers: halve in a loop's stead by exponent arithmetic.
  Value factor = power(constant_like(s, 0.5), s);
  a = scale(a, broadcast_in_dim(factor, a.dims(), {0}));
  // Norm at most 1: 1 / 18! and 1 / 12! are below the rounding of f64 and f32. Four powers serve all terms.
  const int terms = real_of == ElementType::kF64 ? 20 : 12;
  Value identity = identity_matrices(b, type, batch, n, n);
  Value a2 = product(a, a), a3 = product(a2, a), a4 = product(a2, a2);
  double coefficients[21];
  coefficients[0] = 1;
  for (int i = 1; i <= terms; ++i) coefficients[i] = coefficients[i - 1] / i;
  Value sum;
  for (int k = terms - 4; k >= 0; k -= 4) {
    Value part =
        identity * coefficients[k] + a * coefficients[k + 1] + a2 * coefficients[k + 2] + a3 * coefficients[k + 3];
    sum = sum.defined() ? part + product(a4, sum) : part + a4 * coefficients[k + 4];
  }
  const Value init[2] = {s32(b, 0), sum};
  Value most = reduce_max(squarings, {0});
  return while_loop(
      init, [&](std::span<const Value> st) { return less(st[0], most); },
      [&](std::span<const Value> st) -> std::vector<Value> {
        Value more = greater(squarings, expand(st[0], squarings));
        return {st[0] + s32(b, 1), select(broadcast_in_dim(more, st[1].dims(), {0}), product(st[1], st[1]), st[1])};
      })[1];
}

Value linalg_matrix_exp(Op& op) {
  Value a = op.tensor("self");
  if (a.numel() == 0) return a;
  const ElementType type = a.element();
  const bool reduced = type == ElementType::kF16 || type == ElementType::kBF16;
  Value x = as_matrices(reduced ? convert(a, ElementType::kF32) : a);
  return convert(with_batch(matrix_exponential(x), batch_of(a.dims())), type);
}

// Row i of `coefficients` [o, k] times the k slices of `input` [k, ...].
Value compute_linear_combination(Op& op) {
  Value input = op.tensor("input"), coefficients = op.tensor("coefficients", input.element());
  Dims dims = input.dims();
  dims[0] = coefficients.dim(0);
  int64_t rest = 1;
  for (size_t i = 1; i < dims.size(); ++i) rest *= dims[i];
  if (input.numel() == 0 || coefficients.numel() == 0) return constant(op.builder(), input.element(), 0, dims);
  return reshape(
      dot_general(coefficients, reshape(input, {input.dim(0), rest}), {{}, {}, {1}, {0}}, DotPrecision::kHighest),
      dims);
}

}  // namespace

void register_linalg_exp(Registry& r) {
  r.add("linalg_matrix_exp", linalg_matrix_exp).note("scaling and squaring of a Taylor polynomial");
  r.add("_compute_linear_combination", compute_linear_combination);
}

}  // namespace torch_tpu::lowering
