// Singular values and Hermitian eigenvalues, both by one-sided Jacobi rotations: columns are rotated in pairs until all
// are orthogonal. All n / 2 pairs of a step are rotated at once, which suits wide hardware, and small singular values
// come out to high relative accuracy.
#include <cmath>

#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

constexpr int64_t kMaxSweeps = 30;

// Column norms below this part of the largest count as zero where vectors must be completed.
double negligible(ElementType real, int64_t n) { return epsilon(real) * static_cast<double>(n); }

Value per_matrix(Value x) { return reshape(x, {x.dim(0), 1, 1}); }

// The largest modulus in each matrix as [batch, 1, 1]; 1 where that is zero or no number.
Value magnitude(Value x) {
  Value largest = per_matrix(reduce_max(abs(x), {1, 2}));
  return select(logical_and(greater(largest, 0.0), is_finite(largest)), largest, 1.0);
}

struct Pairs {
  Value first, second;
};

// Rotates rows i of `first` and `second` [batch, h, length] against each other so that their first `m` entries become
// orthogonal. Also: how far from it they were, [batch, h], relative to their lengths.
std::pair<Pairs, Value> rotate(Pairs p, int64_t m) {
  Value left = slice_dim(p.first, 2, 0, m), right = slice_dim(p.second, 2, 0, m);
  Value a = reduce_sum(squared_modulus(left), {2}), b = reduce_sum(squared_modulus(right), {2});
  Value g = reduce_sum(conjugate_of(left) * right, {2});
  Value size = abs(g);
  Value lengths = sqrt(a) * sqrt(b);
  // A product that underflows is orthogonal for all purposes.
  Value idle = logical_or(equal(lengths, 0.0), logical_not(greater(size, epsilon(a.element()) * lengths / 4.0)));
  Value off = select(idle, 0.0, size / select(equal(lengths, 0.0), 1.0, lengths));
  Value safe = select(idle, 1.0, size);
  Value zeta = (b - a) / (safe * 2.0);
  Value t = 1.0 / (abs(zeta) + sqrt(zeta * zeta + 1.0));
  t = select(less(zeta, 0.0), negate(t), t);
  Value c = 1.0 / sqrt(t * t + 1.0);
  Value s = select(idle, 0.0, c * t);
  c = select(idle, 1.0, c);
  // The phase that makes the inner product real.
  Value phase = is_complex(g.element())
                    ? select(idle, constant_like(g, 1), conjugate_of(scale(g, 1.0 / safe)))
                    : select(logical_or(idle, greater(g, 0.0)), constant_like(g, 1), constant_like(g, -1));
  auto wide = [&](Value x) { return broadcast_in_dim(x, p.first.dims(), {0, 1}); };
  Value turned = p.second * wide(phase);
  return {{scale(p.first, wide(c)) - scale(turned, wide(s)), scale(p.first, wide(s)) + scale(turned, wide(c))}, off};
}

// Round robin: every row meets every other once in 2 h - 1 steps, after which all are back in their places.
Pairs next_pairs(Pairs p) {
  const int64_t h = p.first.dim(1);
  if (h == 1) return p;
  const Value first[3] = {slice_dim(p.first, 1, 0, 1), slice_dim(p.second, 1, 0, 1), slice_dim(p.first, 1, 1, h - 1)};
  const Value second[2] = {slice_dim(p.second, 1, 1, h), slice_dim(p.first, 1, h - 1, h)};
  return {concatenate(first, 1), concatenate(second, 1)};
}

// Rotates the rows of x [batch, n, length] until the parts of them up to `m` are orthogonal.
Value orthogonalize(Value x, int64_t m) {
  const int64_t n = x.dim(1), h = (n + 1) / 2, steps = 2 * h - 1;
  if (n < 2) return x;
  Builder& b = x.builder();
  const ElementType real = real_type(x.element());
  if (n % 2 != 0) x = pad(x, constant(b, x.element(), 0), {0, 0, 0}, {0, 1, 0});
  const double tolerance = 4 * epsilon(real) * std::sqrt(static_cast<double>(m));
  Value zero = constant(b, real, 0);
  // step, the worst pair of the sweep before, and of this one so far
  const Value init[5] = {s32(b, 0), constant(b, real, 1), zero, slice_dim(x, 1, 0, h), slice_dim(x, 1, h, 2 * h)};
  std::vector<Value> s = while_loop(
      init,
      [&](std::span<const Value> s) {
        return logical_and(less(s[0], s32(b, steps * kMaxSweeps)), greater(s[1], tolerance));
      },
      [&](std::span<const Value> s) -> std::vector<Value> {
        auto [pairs, off] = rotate({s[3], s[4]}, m);
        pairs = next_pairs(pairs);
        Value worst = maximum(s[2], reduce_max(off, {0, 1})), next = s[0] + s32(b, 1);
        Value sweep_ends = equal(remainder(next, s32(b, steps)), s32(b, 0));
        return {next, select(sweep_ends, worst, s[1]), select(sweep_ends, zero, worst), pairs.first, pairs.second};
      });
  const Value halves[2] = {s[3], s[4]};
  return slice_dim(concatenate(halves, 1), 1, 0, n);
}

// Indices that sort keys [batch, n]; NaN last.
Value sorting_order(Value keys, bool descending) {
  const Value xs[2] = {keys, iota(keys.builder(), ElementType::kS32, keys.dims(), 1)};
  return sort(xs, 1, true, [&](std::span<const Value> a) {
    Value before = descending ? greater(a[0], a[1]) : less(a[0], a[1]);
    return logical_or(before, logical_and(is_nan(a[1]), logical_not(is_nan(a[0]))));
  })[1];
}

Value as_column(Value x) { return reshape(x, {x.dim(0), x.dim(1), 1}); }
Value take_elements(Value x, Value order) { return reshape(take_rows(as_column(x), order), x.dims()); }

Results linalg_eigh(Op& op) {
  Value a = op.tensor("A");
  const Dims batch = batch_of(a.dims());
  const bool lower = op.string("UPLO") != "U" && op.string("UPLO") != "u", vectors = op.boolean("compute_v");
  a = as_matrices(a);
  // One triangle counts, and the real part of the diagonal.
  Value strict = triangle(a, lower, lower ? -1 : 1);
  Value diagonal = select(equal(row_index(a), column_index(a)), a, constant_like(a, 0));
  if (is_complex(a.element())) diagonal = to_type(real(diagonal), a.element());
  if (a.dim(2) > 1) op.context().report(Fault::kNoConvergence, any_nan(strict));
  Eigh r = eigh(strict + adjoint(strict) + diagonal, vectors);
  Dims value_dims = batch;
  value_dims.push_back(a.dim(2));
  return {reshape(r.values, value_dims),
          vectors ? with_batch(r.vectors, batch) : constant(op.builder(), a.element(), 0, {0})};
}

Results linalg_svd(Op& op) {
  Value a = op.tensor("A");
  const Dims batch = batch_of(a.dims());
  const bool vectors = op.boolean("compute_uv");
  if (a.numel() > 0) op.context().report(Fault::kNoConvergence, any_nan(a));
  Svd r = svd(as_matrices(a), op.boolean("full_matrices"), vectors);
  Dims value_dims = batch;
  value_dims.push_back(r.s.dim(1));
  Value none = constant(op.builder(), a.element(), 0, {0});
  return {vectors ? with_batch(r.u, batch) : none, reshape(r.s, value_dims), vectors ? with_batch(r.vh, batch) : none};
}

// Columns `v` [batch, n, n], orthonormal but for those that `unknown` [batch, n] names: orthonormal in all.
Value complete_basis(Value v, Value unknown) {
  Value blank = broadcast_in_dim(unknown, v.dims(), {0, 2});
  Value known = select(blank, constant_like(v, 0), v);
  QrFactors f = factor_qr(known);
  // Q's columns are those of `known` up to a factor of modulus 1, where there are any.
  Value q = form_q(f.a, f.tau, v.dim(2));
  return select(blank, q, v);
}

// For m >= n.
Svd tall_svd(Value a, bool full_matrices, bool want_vectors) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), m = a.dim(1), n = a.dim(2);
  const ElementType real = real_type(a.element());
  Value size = magnitude(a);
  a = scale(a, expand(1.0 / size, a));
  // A = Q R; rotations W make the columns of R^H W orthogonal: R^H W = V S, so A = (Q W) S V^H.
  QrFactors f;
  Value columns = a;  // rows of the conjugate of R, which are the columns of R^H
  if (m > n || want_vectors) {
    f = factor_qr(a);
    columns = conjugate_of(triangle(slice_dim(f.a, 1, 0, n), false));
  } else {
    columns = conjugate_of(a);
  }
  if (want_vectors) {
    const Value parts[2] = {columns, identity_matrices(b, a.element(), batch, n, n)};
    columns = concatenate(parts, 2);
  }
  columns = orthogonalize(columns, n);
  Value s = sqrt(reduce_sum(squared_modulus(slice_dim(columns, 2, 0, n)), {2}));
  Value order = sorting_order(s, true);
  s = take_elements(s, order);
  Svd r;
  r.s = s * broadcast_to(reshape(size, {batch, 1}), s.dims());
  if (!want_vectors) return r;
  columns = take_rows(columns, order);
  Value w = transpose_matrix(slice_dim(columns, 2, n, 2 * n));
  Value largest = broadcast_to(slice_dim(s, 1, 0, 1), s.dims());
  Value tiny = logical_not(greater(s, largest * negligible(real, n)));
  Value v = transpose_matrix(slice_dim(columns, 2, 0, n));
  v = scale(v, broadcast_in_dim(1.0 / select(tiny, 1.0, s), v.dims(), {0, 2}));
  v = if_then_else(
      reduce_or(tiny, {0, 1}), [&] { return std::vector<Value>{complete_basis(v, tiny)}; },
      [&] { return std::vector<Value>{v}; })[0];
  r.vh = adjoint(v);
  const int64_t wanted = full_matrices ? m : n;
  // [W 0; 0 I] under the reflectors.
  Value core = w;
  if (m > n) {
    core = pad(w, constant(b, a.element(), 0), {0, 0, 0}, {0, m - n, wanted - n});
    if (wanted > n) {
      Value row = row_index(core);
      Value rest = logical_and(equal(row, column_index(core)), greater_equal(row, constant_like(row, n)));
      core = select(rest, constant_like(core, 1), core);
    }
  }
  r.u = apply_reflectors(f.a, f.tau, core, false);
  return r;
}

}  // namespace

Svd svd(Value a, bool full_matrices, bool want_vectors) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), m = a.dim(1), n = a.dim(2), k = std::min(m, n);
  if (a.numel() == 0) {
    Svd r;
    r.u = identity_matrices(b, a.element(), batch, m, full_matrices ? m : k);
    r.vh = identity_matrices(b, a.element(), batch, full_matrices ? n : k, n);
    r.s = constant(b, real_type(a.element()), 0, {batch, k});
    return r;
  }
  if (m >= n) return tall_svd(a, full_matrices, want_vectors);
  Svd r = tall_svd(adjoint(a), full_matrices, want_vectors);
  if (want_vectors) {
    Value u = adjoint(r.vh);
    r.vh = adjoint(r.u);
    r.u = u;
  }
  return r;
}

Eigh eigh(Value a, bool want_vectors) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), n = a.dim(2);
  const ElementType type = a.element(), real_of = real_type(type);
  if (a.numel() == 0) return {constant(b, real_of, 0, {batch, n}), a};
  Value size = magnitude(a);
  a = scale(a, expand(1.0 / size, a));
  // A + c I is positive definite and well conditioned: its singular vectors are the eigenvectors. c exceeds the
  // spectral radius, which no row sum falls short of.
  Value bound = per_matrix(reduce_max(reduce_sum(abs(a), {2}), {1})) * 1.25;
  bound = select(greater(bound, 0.0), bound, 1.0);
  Value shifted = a + scale(identity_matrices(b, type, batch, n, n), expand(bound, a));
  // Rows of the transpose are columns.
  Value rows = orthogonalize(transpose_matrix(shifted), n);
  Value norms = sqrt(reduce_sum(squared_modulus(rows), {2}));
  Value order = sorting_order(norms, false);
  rows = take_rows(rows, order);
  norms = take_elements(norms, order);
  Value v = transpose_matrix(scale(rows, broadcast_in_dim(1.0 / norms, rows.dims(), {0, 1})));
  // Rayleigh quotients are free of the shift's rounding.
  Value image = product(a, v);
  Value quotient = conjugate_of(v) * image;
  Value values = reduce_sum(is_complex(type) ? real(quotient) : quotient, {1});
  // Equal values may differ in the last bits from the order of the norms.
  Value final_order = sorting_order(values, false);
  values = take_elements(values, final_order) * broadcast_to(reshape(size, {batch, 1}), {batch, n});
  if (want_vectors) v = transpose_matrix(take_rows(transpose_matrix(v), final_order));
  return {values, v};
}

void register_linalg_spectral(Registry& r) {
  r.add("_linalg_eigh", linalg_eigh).note("one-sided Jacobi rotations, all pairs of a step at once");
  r.add("_linalg_svd", linalg_svd).column_major({2}).note("one-sided Jacobi rotations, all pairs of a step at once");
}

}  // namespace torch_tpu::lowering
