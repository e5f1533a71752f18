// Eigenvalues of general matrices: reduction to Hessenberg form, then QR iterations with Wilkinson's shift to a complex
// Schur form A = Z T Z^H, then back substitution for the eigenvectors of T. The matrices of a batch share the loops;
// each has its own active window.
#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

Value modulus_1(Value x) { return abs(real(x)) + abs(imag(x)); }

// H and Z with A = Z H Z^H, H upper Hessenberg.
std::pair<Value, Value> hessenberg(Value a) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), n = a.dim(1);
  Value z = identity_matrices(b, a.element(), batch, n, n);
  if (n < 3) return {a, z};
  auto body = [&](Value j, std::span<const Value> s) -> std::vector<Value> {
    Value h = s[0], z = s[1], column = column_at(h, j), row = row_index(column);
    Value next = expand(j + s32(b, 1), row);
    Value tail = select(greater_equal(row, next), column, constant_like(column, 0));
    // The reflector maps tail to -phase(alpha) |tail| e_(j + 1): v = tail + phase |tail| e, tau = 2 / |v|^2.
    Value largest = reshape(reduce_max(abs(tail), {1, 2}), {batch, 1, 1});
    Value unit = select(equal(largest, 0.0), 1.0, largest);
    tail = scale(tail, expand(1.0 / unit, tail));
    Value alpha = element_at(tail, j + s32(b, 1), s32(b, 0)), size = abs(alpha);
    Value rest = reduce_sum(select(greater(row, next), squared_modulus(tail), 0.0), {1, 2});
    rest = reshape(rest, {batch, 1, 1});
    Value norm = sqrt(size * size + rest);
    Value none = equal(rest, 0.0);
    Value phase =
        select(equal(size, 0.0), constant_like(alpha, 1), scale(alpha, 1.0 / select(equal(size, 0.0), 1.0, size)));
    Value v = tail + select(equal(row, next), expand(scale(phase, norm), tail), constant_like(tail, 0));
    Value square = norm * (norm + size);  // |v|^2 / 2
    Value tau = select(none, 0.0, 1.0 / select(none, 1.0, square));
    Value scaled = scale(v, expand(tau, v));
    h = h - product(scaled, product(adjoint(v), h));
    h = h - product(product(h, v), adjoint(scaled));
    z = z - product(product(z, v), adjoint(scaled));
    return {h, z};
  };
  std::vector<Value> s = counted_loop({a, z}, 0, n - 2, body);
  return {triangle(s[0], false, -1), s[1]};
}

// The subdiagonal as [batch, n - 1], with what is negligible beside its neighbours set to zero.
Value subdiagonal(Value h) {
  const int64_t n = h.dim(1);
  Value diagonal = modulus_1(diagonal_of(h));
  Value below = slice_dim(slice_dim(h, 1, 1, n), 2, 0, n - 1);
  Value entries = diagonal_of(below);
  Value around = slice_dim(diagonal, 1, 0, n - 1) + slice_dim(diagonal, 1, 1, n);
  // Where both neighbours vanish, the whole matrix is the measure.
  Value all = reshape(reduce_max(modulus_1(h), {1, 2}), {h.dim(0), 1});
  around = select(equal(around, 0.0), expand(all, around), around);
  // NaN counts as negligible, or the iteration would go on to its limit.
  Value small = logical_not(greater(modulus_1(entries), around * epsilon(around.element())));
  return select(small, constant_like(entries, 0), entries);
}

Value with_subdiagonal(Value h, Value entries) {
  Value padded = pad(entries, constant(h.builder(), h.element(), 0), {0, 1}, {0, 0});
  Value wide = broadcast_in_dim(padded, h.dims(), {0, 1});
  return select(equal(row_index(h), column_index(h) + s32(h.builder(), 1, h.dims())), wide, triangle(h, false));
}

Value pick(Value x, Value i, Value j) {  // x[b, i[b], j[b]] as [batch]
  Value at = logical_and(equal(row_index(x), broadcast_in_dim(i, x.dims(), {0})),
                         equal(column_index(x), broadcast_in_dim(j, x.dims(), {0})));
  return reduce_sum(select(at, x, constant_like(x, 0)), {1, 2});
}

// The eigenvalue of the trailing 2 x 2 block of the window that is nearer to its last entry.
Value wilkinson_shift(Value h, Value high) {
  Value before = maximum(high - constant_like(high, 1), constant_like(high, 0));
  Value a = pick(h, before, before), b = pick(h, before, high), c = pick(h, high, before), d = pick(h, high, high);
  Value half = (a - d) * constant_like(a, 0.5), bc = b * c;
  Value root = sqrt(half * half + bc);
  // d - bc / (half +- root), with the sign that adds up.
  Value plus = half + root, minus = half - root;
  Value divisor = select(greater_equal(abs(plus), abs(minus)), plus, minus);
  Value none = equal(abs(divisor), 0.0);
  return select(none, d, d - bc / select(none, constant_like(divisor, 1), divisor));
}

struct Rotation {
  Value c, s;  // [batch, 1, 1]; [c s; -conj(s) c] (x, y) = (r, 0)
};

Rotation rotation(Value x, Value y, Value active) {
  Value ax = abs(x), ay = abs(y), largest = maximum(ax, ay);
  Value idle = logical_or(logical_not(active), logical_not(greater(ay, 0.0)));
  Value unit = select(idle, 1.0, largest);
  ax = ax / unit;
  ay = ay / unit;
  Value norm = select(idle, 1.0, sqrt(ax * ax + ay * ay));
  Value c = select(idle, 1.0, ax / norm);
  Value no_x = equal(ax, 0.0);
  Value phase = select(no_x, constant_like(x, 1), scale(x, 1.0 / (unit * select(no_x, 1.0, ax))));
  Value s = phase * conjugate_of(scale(y, 1.0 / (unit * norm)));
  return {c, select(idle, constant_like(s, 0), s)};
}

// Rows k and k + 1 of x under the rotation.
Value rotate_rows(Value x, Value k, const Rotation& r) {
  const Value at[3] = {s32(x.builder(), 0), k, s32(x.builder(), 0)};
  Value rows = dynamic_slice(x, at, {x.dim(0), 2, x.dim(2)});
  Value first = slice_dim(rows, 1, 0, 1), second = slice_dim(rows, 1, 1, 2);
  Value c = expand(r.c, first), s = expand(r.s, first);
  const Value rotated[2] = {scale(first, c) + s * second, scale(second, c) - conjugate_of(s) * first};
  return dynamic_update_slice(x, concatenate(rotated, 1), at);
}

// Columns k and k + 1 of x times the adjoint of the rotation.
Value rotate_columns(Value x, Value k, const Rotation& r) {
  const Value at[3] = {s32(x.builder(), 0), s32(x.builder(), 0), k};
  Value columns = dynamic_slice(x, at, {x.dim(0), x.dim(1), 2});
  Value first = slice_dim(columns, 2, 0, 1), second = slice_dim(columns, 2, 1, 2);
  Value c = expand(r.c, first), s = expand(r.s, first);
  const Value rotated[2] = {scale(first, c) + conjugate_of(s) * second, scale(second, c) - s * first};
  return dynamic_update_slice(x, concatenate(rotated, 2), at);
}

Value any_nonzero(Value x) { return reduce_or(not_equal(x, constant_like(x, 0)), all_dims(x.rank())); }

// One implicitly shifted QR sweep over the last unreduced window of every matrix.
std::pair<Value, Value> sweep(Value h, Value z, Value iteration) {
  Builder& b = h.builder();
  const int64_t batch = h.dim(0), n = h.dim(1);
  Value entries = diagonal_of(slice_dim(slice_dim(h, 1, 1, n), 2, 0, n - 1));
  Value coupled = not_equal(entries, constant_like(entries, 0));
  Value index = iota(b, ElementType::kS32, coupled.dims(), 1), none = constant_like(index, -1);
  Value high = reduce_max(select(coupled, index, none), {1}) + s32(b, 1, {batch});
  Value before = less(index, broadcast_in_dim(high, index.dims(), {0}));
  Value low = reduce_max(select(logical_and(before, logical_not(coupled)), index, none), {1}) + s32(b, 1, {batch});
  Value shift = wilkinson_shift(h, high);
  // A cycle is broken by an odd shift now and then.
  Value odd = equal(remainder(iteration, s32(b, 10)), s32(b, 9));
  Value kick =
      to_type(abs(pick(h, high, maximum(high - constant_like(high, 1), constant_like(high, 0)))) * 0.75, h.element());
  shift = select(odd, shift + kick, shift);
  shift = reshape(shift, {batch, 1, 1});
  high = reshape(high, {batch, 1, 1});
  low = reshape(low, {batch, 1, 1});
  auto body = [&](Value k, std::span<const Value> s) -> std::vector<Value> {
    Value h = s[0], next = k + s32(b, 1), left = maximum(k - s32(b, 1), s32(b, 0));
    Value at = expand(k, low), starts = equal(at, low);
    Value x = select(starts, element_at(h, k, k) - shift, element_at(h, k, left));
    Value y = select(starts, element_at(h, next, k), element_at(h, next, left));
    Rotation r = rotation(x, y, logical_and(greater_equal(at, low), less(at, high)));
    return {rotate_columns(rotate_rows(h, k, r), k, r), rotate_columns(s[1], k, r)};
  };
  std::vector<Value> s = counted_loop({h, z}, 0, n - 1, body);
  return {s[0], s[1]};
}

struct Schur {
  Value t, z;
};

Schur schur(Value a) {
  Builder& b = a.builder();
  const int64_t n = a.dim(1);
  auto [h, z] = hessenberg(a);
  if (n == 1) return {h, z};
  Value entries = subdiagonal(h);
  constexpr int64_t kSweepsPerValue = 30;
  const Value init[4] = {s32(b, 0), any_nonzero(entries), with_subdiagonal(h, entries), z};
  std::vector<Value> s = while_loop(
      init,
      [&](std::span<const Value> s) {
        return logical_and(s[1], less(s[0], s32(b, kSweepsPerValue * std::max<int64_t>(n, 10))));
      },
      [&](std::span<const Value> s) -> std::vector<Value> {
        auto [h, z] = sweep(s[2], s[3], s[0]);
        Value entries = subdiagonal(h);
        return {s[0] + s32(b, 1), any_nonzero(entries), with_subdiagonal(h, entries), z};
      });
  return {triangle(s[2], false), s[3]};
}

// Eigenvectors of upper triangular t, as columns with 1 on the diagonal.
Value triangular_vectors(Value t, Value values) {
  Builder& b = t.builder();
  const int64_t batch = t.dim(0), n = t.dim(1);
  Value smallest = reshape(reduce_max(abs(t), {1, 2}), {batch, 1, 1}) * epsilon(real_type(t.element()));
  smallest = maximum(smallest, constant_like(smallest, smallest_normal(smallest.element())));
  Value lambda = reshape(values, {batch, 1, n});
  auto body = [&](Value i, std::span<const Value> s) -> std::vector<Value> {
    Value x = s[0], row = row_at(t, i), column = column_index(row), here = expand(i, column);
    Value gap = expand(element_at(t, i, i), lambda) - lambda;
    // Equal eigenvalues: the smallest gap that counts, as LAPACK does.
    Value floor = expand(smallest, column);
    gap = select(less(abs(gap), floor), to_type(floor, t.element()), gap);
    Value known = product(select(greater(column, here), row, constant_like(row, 0)), x);
    Value values_here = select(greater(column, here), negate(known) / gap,
                               select(equal(column, here), constant_like(row, 1), constant_like(row, 0)));
    const Value at[3] = {s32(b, 0), i, s32(b, 0)};
    return {dynamic_update_slice(x, values_here, at)};
  };
  return counted_loop({constant(b, t.element(), 0, {batch, n, n})}, n - 1, -1, body)[0];
}

// Columns of norm 1 whose largest entry is real, as LAPACK's geev leaves them.
Value normalized(Value v) {
  const int64_t batch = v.dim(0), n = v.dim(2);
  auto per_column = [&](Value x) { return reshape(x, {batch, 1, n}); };
  Value size = abs(v), largest = per_column(reduce_max(size, {1}));
  Value unit = select(greater(largest, 0.0), largest, 1.0);
  v = scale(v, expand(1.0 / unit, v));
  Value norm = sqrt(per_column(reduce_sum(squared_modulus(v), {1})));
  Value row = row_index(size);
  Value first =
      per_column(reduce_min(select(equal(size, expand(largest, size)), row, constant_like(row, v.dim(1))), {1}));
  Value is_first = equal(row, expand(first, row));
  Value pivot = per_column(reduce_sum(select(is_first, v, constant_like(v, 0)), {1}));
  Value pivot_size = abs(pivot), none = equal(pivot_size, 0.0);
  Value turn = scale(conjugate_of(pivot), 1.0 / (select(none, 1.0, pivot_size) * select(equal(norm, 0.0), 1.0, norm)));
  v = v * expand(select(none, constant_like(turn, 1), turn), v);
  return select(is_first, to_type(real(v), v.element()), v);
}

// Of a real matrix: imaginary parts that are no more than rounding are zero.
Value clean_values(Value values, Value a) {
  Value size = reshape(reduce_max(reduce_sum(abs(a), {2}), {1}), {values.dim(0), 1});
  Value noise = expand(size * (4 * epsilon(a.element())), values);
  return select(less_equal(abs(imag(values)), noise), to_type(real(values), values.element()), values);
}

struct Eigen {
  Value values, vectors;
};

Eigen eigen(const Op& op, Value a, bool want_vectors) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), n = a.dim(1);
  const ElementType type = complex_type(a.element());
  if (a.numel() == 0) return {constant(b, type, 0, {batch, n}), convert(a, type)};
  op.context().report(
      Fault::kNotFinite,
      any(logical_not(is_complex(a.element()) ? logical_and(is_finite(real(a)), is_finite(imag(a))) : is_finite(a))));
  auto [t, z] = schur(convert(a, type));
  Value values = diagonal_of(t);
  Eigen r{is_complex(a.element()) ? values : clean_values(values, a), Value()};
  if (want_vectors) r.vectors = normalized(product(z, triangular_vectors(t, values)));
  return r;
}

Dims vector_dims(const Dims& dims) { return Dims(dims.begin(), dims.end() - 1); }

Results linalg_eig(Op& op) {
  Value a = op.tensor("self");
  Eigen e = eigen(op, as_matrices(a), true);
  return {reshape(e.values, vector_dims(a.dims())), with_batch(e.vectors, batch_of(a.dims()))};
}

Value linalg_eigvals(Op& op) {
  Value a = op.tensor("self");
  return reshape(eigen(op, as_matrices(a), false).values, vector_dims(a.dims()));
}

}  // namespace

void register_linalg_eig(Registry& r) {
  r.add("linalg_eig", linalg_eig)
      .column_major({1})
      .note(
          "reduction to Hessenberg form, implicitly shifted QR iterations"
          ", back substitution for the vectors");
  r.add("_linalg_eigvals", linalg_eigvals).note("reduction to Hessenberg form, implicitly shifted QR iterations");
}

}  // namespace torch_tpu::lowering
