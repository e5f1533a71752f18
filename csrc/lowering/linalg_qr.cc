// Householder QR, as LAPACK stores it.
#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

// Row vectors v^H x of one column vector v [batch, m, 1]: [batch, 1, n].
Value left_product(Value v, Value x) {
  return reshape(reduce_sum(expand(conjugate_of(v), x) * x, {1}), {x.dim(0), 1, x.dim(2)});
}

// Reflector j as it is stored: ones on the diagonal, zeros above.
Value stored_reflector(Value reflectors, Value j) {
  Value v = column_at(reflectors, j), row = row_index(v), at = expand(j, row);
  return select(greater(row, at), v, select(equal(row, at), constant_like(v, 1), constant_like(v, 0)));
}

Value vector_at(Value x, Value j) {  // [batch, k] -> [batch, 1, 1]
  const Value at[2] = {s32(x.builder(), 0), j};
  return reshape(dynamic_slice(x, at, {x.dim(0), 1}), {x.dim(0), 1, 1});
}

Results geqrf(Op& op) {
  Value a = op.tensor("self");
  const Dims batch = batch_of(a.dims());
  QrFactors f = factor_qr(as_matrices(a));
  Dims tau_dims = batch;
  tau_dims.push_back(f.tau.dim(1));
  return {with_batch(f.a, batch), reshape(f.tau, tau_dims)};
}

Results linalg_qr(Op& op) {
  Value a = op.tensor("A");
  const Dims batch = batch_of(a.dims());
  const std::string& mode = op.string("mode");
  a = as_matrices(a);
  const int64_t m = a.dim(1), k = std::min(m, a.dim(2)), columns = mode == "complete" ? m : k;
  QrFactors f = factor_qr(a);
  Value r = triangle(slice_dim(f.a, 1, 0, columns), false);
  Value q = mode == "r" ? constant(op.builder(), a.element(), 0, {0}) : with_batch(form_q(f.a, f.tau, columns), batch);
  return {q, with_batch(r, batch)};
}

Value flat_tau(Value tau) {
  int64_t batch = 1;
  for (size_t i = 0; i + 1 < tau.dims().size(); ++i) batch *= tau.dims()[i];
  return reshape(tau, {batch, tau.dims().back()});
}

Value linalg_householder_product(Op& op) {
  Value a = op.tensor("input");
  const Dims batch = batch_of(a.dims());
  a = as_matrices(a);
  return with_batch(form_q(a, flat_tau(op.tensor("tau")), a.dim(2)), batch);
}

Value ormqr(Op& op) {
  Value reflectors = as_matrices(op.tensor("self")), tau = flat_tau(op.tensor("input2")), c = op.tensor("input3");
  const Dims batch = batch_of(c.dims());
  c = as_matrices(c);
  const bool transposed = op.boolean("transpose");
  if (op.boolean("left")) return with_batch(apply_reflectors(reflectors, tau, c, transposed), batch);
  return with_batch(adjoint(apply_reflectors(reflectors, tau, adjoint(c), !transposed)), batch);
}

}  // namespace

QrFactors factor_qr(Value a) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), k = std::min(a.dim(1), a.dim(2));
  const ElementType type = a.element();
  Value tau = constant(b, type, 0, {batch, k});
  if (a.numel() == 0) return {a, tau};
  auto body = [&](Value j, std::span<const Value> s) -> std::vector<Value> {
    Value x = s[0], column = column_at(x, j), row = row_index(column);
    Value below = greater(row, expand(j, row));
    Value tail = select(below, column, constant_like(column, 0));
    Value alpha = element_at(x, j, j), alpha_re = real_type(type) == type ? alpha : real(alpha);
    // Squares of numbers near the ends of the range would overflow or vanish.
    Value size = abs(tail);
    Value largest = maximum(reshape(reduce_max(size, {1, 2}), {batch, 1, 1}), abs(alpha));
    Value unit = select(equal(largest, 0.0), 1.0, largest);
    Value ratio = size / expand(unit, size), alpha_ratio = abs(alpha) / unit;
    Value tail_square = reshape(reduce_sum(ratio * ratio, {1, 2}), {batch, 1, 1});
    Value norm = unit * sqrt(alpha_ratio * alpha_ratio + tail_square);
    Value beta = select(less(alpha_re, 0.0), norm, negate(norm));
    Value none = equal(tail_square, 0.0);
    if (is_complex(type)) none = logical_and(none, equal(imag(alpha), 0.0));
    beta = select(none, alpha_re, beta);
    Value divisor = select(none, constant_like(beta, 1), beta);
    Value t = (beta - alpha_re) / divisor;
    if (is_complex(type)) t = complex(t, negate(imag(alpha)) / divisor);
    t = select(none, constant_like(t, 0), t);
    Value gap = select(none, constant_like(alpha, 1), alpha - to_type(beta, type));
    Value scaled = select(below, column / expand(gap, column), constant_like(column, 0));
    Value at_diagonal = equal(row, expand(j, row));
    Value v = select(at_diagonal, constant_like(column, 1), scaled);
    // H^H from the left on the columns behind; this column gets beta and v.
    Value updated = x - expand(v * expand(conjugate_of(t), v), x) * expand(left_product(v, x), x);
    Value stored = select(at_diagonal, expand(to_type(beta, type), column), select(below, scaled, column));
    Value columns = column_index(x), here = expand(j, columns);
    x = select(greater(columns, here), updated, select(equal(columns, here), expand(stored, x), x));
    const Value at[2] = {s32(b, 0), j};
    return {x, dynamic_update_slice(s[1], reshape(t, {batch, 1}), at)};
  };
  std::vector<Value> s = counted_loop({a, tau}, 0, k, body);
  return {s[0], s[1]};
}

Value apply_reflectors(Value reflectors, Value tau, Value c, bool adjoint_of_q) {
  const int64_t k = tau.dim(1);
  if (c.numel() == 0 || k == 0) return c;
  auto body = [&](Value j, std::span<const Value> s) -> std::vector<Value> {
    Value x = s[0], v = stored_reflector(reflectors, j), t = vector_at(tau, j);
    if (adjoint_of_q) t = conjugate_of(t);
    return {x - expand(v * expand(t, v), x) * expand(left_product(v, x), x)};
  };
  return adjoint_of_q ? counted_loop({c}, 0, k, body)[0] : counted_loop({c}, k - 1, -1, body)[0];
}

Value form_q(Value reflectors, Value tau, int64_t columns) {
  Value identity =
      identity_matrices(reflectors.builder(), reflectors.element(), reflectors.dim(0), reflectors.dim(1), columns);
  return apply_reflectors(reflectors, tau, identity, false);
}

void register_linalg_qr(Registry& r) {
  r.add("geqrf", geqrf).column_major({0}).note("Householder reflections");
  r.add("linalg_qr", linalg_qr).note("Householder reflections");
  r.add("linalg_householder_product", linalg_householder_product).note("product of Householder reflections");
  r.add("ormqr", ormqr).note("product of Householder reflections");
}

}  // namespace torch_tpu::lowering
