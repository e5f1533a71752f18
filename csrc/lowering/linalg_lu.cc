// LU factors, and what follows from them: solutions, inverses, determinants.
#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

// Columns that are eliminated one by one before the rest of the matrix is updated by one product.
constexpr int64_t kPanel = 64;

// Eliminates `steps` columns of `a` [batch, m, w], step s pivoting in row start + s. `permutation` follows the rows;
// pivots and info as in LuFactors.
struct Elimination {
  Value a, permutation, pivots, info;
};

Elimination eliminate(Elimination in, Value start, int64_t steps) {
  Builder& b = in.a.builder();
  const int64_t batch = in.a.dim(0), m = in.a.dim(1);
  auto body = [&](Value step, std::span<const Value> s) -> std::vector<Value> {
    Value a = s[0], permutation = s[1], pivots = s[2], info = s[3];
    Value at = start + step;
    Value rows = row_index(a), columns = column_index(a);
    Value column = column_at(a, step);
    Value size = is_complex(a.element()) ? abs(real(column)) + abs(imag(column)) : abs(column);
    Value index_in_column = row_index(size);
    size = select(less(index_in_column, expand(at, size)), -1.0, size);
    Value largest = expand(reshape(reduce_max(size, {1, 2}), {batch, 1, 1}), size);
    // The first of equals; a NaN equals nothing, and the row stays.
    Value best = reduce_min(select(equal(size, largest), index_in_column, constant_like(index_in_column, m)), {1, 2});
    best = reshape(best, {batch, 1, 1});
    best = select(equal(best, constant_like(best, m)), broadcast_to(at, {batch, 1, 1}), best);
    Value here = equal(rows, expand(at, rows)), there = equal(rows, expand(best, rows));
    Value row_here = row_at(a, at);
    Value row_there = reshape(reduce_sum(select(there, a, constant_like(a, 0)), {1}), row_here.dims());
    Value swapped = select(here, expand(row_there, a), select(there, expand(row_here, a), a));

    Value best_row = reshape(best, {batch, 1}), index = iota(b, ElementType::kS32, permutation.dims(), 1);
    const Value permutation_at[2] = {s32(b, 0), at};
    Value old_here = dynamic_slice(permutation, permutation_at, {batch, 1});
    Value is_best = equal(index, expand(best_row, index));
    Value old_there = reshape(reduce_sum(select(is_best, permutation, constant_like(permutation, 0)), {1}), {batch, 1});
    permutation = select(equal(index, expand(at, index)), expand(old_there, index),
                         select(is_best, expand(old_here, index), permutation));
    pivots = dynamic_update_slice(pivots, best_row + s32(b, 1, {batch, 1}), permutation_at);

    Value head = column_at(row_there, step);  // [batch, 1, 1]
    Value singular = equal(head, constant_like(head, 0));
    Value first_singular = logical_and(reshape(singular, {batch}), equal(info, constant_like(info, 0)));
    info = select(first_singular, expand(at + s32(b, 1), info), info);

    Value below = greater(rows, expand(at, rows));
    Value factors =
        column_at(swapped, step) / expand(select(singular, constant_like(head, 1), head), column_at(a, step));
    Value wide = expand(factors, a);
    a = select(logical_and(below, greater(columns, expand(step, columns))), swapped - wide * expand(row_there, a),
               select(logical_and(below, equal(columns, expand(step, columns))), wide, swapped));
    return {a, permutation, pivots, info};
  };
  std::vector<Value> s = counted_loop({in.a, in.permutation, in.pivots, in.info}, 0, steps, body);
  return {s[0], s[1], s[2], s[3]};
}

// One panel of `width` columns from `start`, and the update of the columns behind it.
Elimination eliminate_panel(Elimination in, Value start, int64_t width) {
  Builder& b = in.a.builder();
  const int64_t batch = in.a.dim(0), m = in.a.dim(1), n = in.a.dim(2);
  Value zero = s32(b, 0);
  const Value at_columns[3] = {zero, zero, start}, at_rows[3] = {zero, start, zero}, at_block[3] = {zero, start, zero};
  Elimination panel = in;
  panel.a = dynamic_slice(in.a, at_columns, {batch, m, width});
  panel.permutation = iota(b, ElementType::kS32, {batch, m}, 1);
  panel = eliminate(panel, start, width);
  Value a = take_rows(in.a, panel.permutation);
  Value order = reshape(take_rows(reshape(in.permutation, {batch, m, 1}), panel.permutation), {batch, m});
  a = dynamic_update_slice(a, panel.a, at_columns);
  Value top = dynamic_slice(panel.a, at_block, {batch, width, width});
  Value strip = dynamic_slice(a, at_rows, {batch, width, n});
  Value column = column_index(strip), end = start + s32(b, width);
  Value behind = greater_equal(column, expand(end, column));
  Value solved = solve_triangular(top, strip, true, true, true);
  a = dynamic_update_slice(a, select(behind, solved, strip), at_rows);
  Value rows = row_index(panel.a);
  Value left = select(greater_equal(rows, expand(end, rows)), panel.a, constant_like(panel.a, 0));
  a = a - product(left, select(behind, solved, constant_like(solved, 0)));
  return {a, order, panel.pivots, panel.info};
}

Value vectors_as_columns(Value x) {
  Dims dims = x.dims();
  dims.push_back(1);
  return reshape(x, dims);
}

struct Factored {
  LuFactors f;
  Dims batch;
};

Factored factor_argument(Op& op, std::string_view name, bool transposed = false) {
  Value a = op.tensor(name);
  const Dims batch = batch_of(a.dims());
  a = as_matrices(a);
  return {factor_lu(transposed ? transpose_matrix(a) : a), batch};
}

Value vectors_with_batch(Value x, const Dims& batch) {
  Dims dims = batch;
  dims.insert(dims.end(), x.dims().begin() + 1, x.dims().end());
  return reshape(x, dims);
}

// As the CPU, which has no LAPACK routine for it.
void require_pivoting(const Op& op) {
  if (!op.boolean("pivot"))
    throw CallError("linalg.lu_factor: LU without pivoting is not implemented on the tpu device");
}

Results linalg_lu_factor_ex(Op& op) {
  require_pivoting(op);
  auto [f, batch] = factor_argument(op, "A");
  return {with_batch(f.lu, batch), vectors_with_batch(f.pivots, batch), vectors_with_batch(f.info, batch)};
}

// P with P[permutation[i], i] = 1.
Value permutation_matrix(Value permutation, ElementType type) {
  const int64_t batch = permutation.dim(0), m = permutation.dim(1);
  Value wide = broadcast_in_dim(permutation, {batch, m, m}, {0, 2});
  return convert(equal(row_index(wide), wide), type);
}

struct Triangles {
  Value l, u;
};
Triangles unpack(Value lu) {
  const int64_t batch = lu.dim(0), m = lu.dim(1), n = lu.dim(2), k = std::min(m, n);
  Value left = slice_dim(lu, 2, 0, k);
  Value l = triangle(left, true, -1) + identity_matrices(lu.builder(), lu.element(), batch, m, k);
  return {l, triangle(slice_dim(lu, 1, 0, k), false)};
}

Results linalg_lu(Op& op) {
  require_pivoting(op);
  auto [f, batch] = factor_argument(op, "A");
  auto [l, u] = unpack(f.lu);
  Value p = permutation_matrix(f.permutation, f.lu.element());
  return {with_batch(p, batch), with_batch(l, batch), with_batch(u, batch)};
}

Results lu_unpack(Op& op) {
  const Dims batch = batch_of(op.dims("LU_data"));
  Builder& b = op.builder();
  const ElementType type = op.element("LU_data");
  const int64_t m = op.dims("LU_data").end()[-2];
  Value nothing = constant(b, type, 0, {0});
  Results r{nothing, nothing, nothing};
  if (op.boolean("unpack_pivots")) {
    Value pivots = op.tensor("LU_pivots", ElementType::kS32);
    int64_t count = 1;
    for (int64_t d : batch) count *= d;
    pivots = reshape(pivots, {count, pivots.dims().back()});
    r[0] = with_batch(permutation_matrix(permutation_of(pivots, m, false), type), batch);
  }
  if (op.boolean("unpack_data")) {
    auto [l, u] = unpack(as_matrices(op.tensor("LU_data")));
    r[1] = with_batch(l, batch);
    r[2] = with_batch(u, batch);
  }
  return r;
}

// X of A X = B (left) or X A = B with A or its adjoint, where lu is the factorization of A.
Value solve_side(Value lu, Value pivots, Value b, bool left, bool adjoint_of_a) {
  return left ? solve_lu(lu, pivots, b, adjoint_of_a) : adjoint(solve_lu(lu, pivots, adjoint(b), !adjoint_of_a));
}

Value linalg_lu_solve(Op& op) {
  Value lu = op.tensor("LU"), b = op.tensor("B");
  Value pivots = vectors_as_columns(op.tensor("pivots", ElementType::kS32));
  broadcast_batches(lu, b);
  const Dims batch = batch_of(b.dims());
  Dims pivot_dims = batch;
  pivot_dims.insert(pivot_dims.end(), pivots.dims().end() - 2, pivots.dims().end());
  pivots = as_matrices(broadcast_to(pivots, pivot_dims));
  pivots = reshape(pivots, {pivots.dim(0), pivots.dim(1)});
  return with_batch(solve_side(as_matrices(lu), pivots, as_matrices(b), op.boolean("left"), op.boolean("adjoint")),
                    batch);
}

Results linalg_solve_ex(Op& op) {
  const Dims& dims_a = op.dims("A");
  Value b = op.tensor("B");
  const bool vectors =
      b.rank() == 1 || (b.rank() == op.rank("A") - 1 && b.dims() == Dims(dims_a.begin(), dims_a.end() - 1));
  if (vectors) b = vectors_as_columns(b);
  auto [f, batch] = factor_argument(op, "A");
  Value lu = with_batch(f.lu, batch), pivots = vectors_as_columns(vectors_with_batch(f.pivots, batch));
  Value wide_lu = lu;
  broadcast_batches(wide_lu, b);
  const Dims result_batch = batch_of(b.dims());
  Dims pivot_dims = result_batch;
  pivot_dims.insert(pivot_dims.end(), pivots.dims().end() - 2, pivots.dims().end());
  Value wide_pivots = as_matrices(broadcast_to(pivots, pivot_dims));
  wide_pivots = reshape(wide_pivots, {wide_pivots.dim(0), wide_pivots.dim(1)});
  Value x = solve_side(as_matrices(wide_lu), wide_pivots, as_matrices(b), op.boolean("left"), false);
  x = with_batch(x, result_batch);
  if (vectors) x = reshape(x, Dims(x.dims().begin(), x.dims().end() - 1));
  return {x, lu, vectors_with_batch(f.pivots, batch), vectors_with_batch(f.info, batch)};
}

Results linalg_inv_ex(Op& op) {
  auto [f, batch] = factor_argument(op, "A");
  Value identity = identity_matrices(op.builder(), f.lu.element(), f.lu.dim(0), f.lu.dim(1), f.lu.dim(1));
  return {with_batch(solve_lu(f.lu, f.pivots, identity, false), batch), vectors_with_batch(f.info, batch)};
}

// -1 for an odd number of interchanges, else 1; [batch] in `type`.
Value permutation_sign(Value pivots, ElementType type) {
  Builder& b = pivots.builder();
  Value expected = iota(b, ElementType::kS32, pivots.dims(), 1) + s32(b, 1, pivots.dims());
  Value moved = reduce_sum(convert(not_equal(pivots, expected), ElementType::kS32), {1});
  Value odd = equal(logical_and(moved, constant_like(moved, 1)), constant_like(moved, 1));
  return select(odd, constant(b, type, -1, odd.dims()), constant(b, type, 1, odd.dims()));
}

// For determinants PyTorch's CPU kernels factor the transpose where the matrix is row-major and real, and the backward
// formulas expect the factors so.
bool factors_transpose(const Op& op, std::string_view name) {
  return op.is_contiguous(name) && !is_complex(op.element(name));
}

Results linalg_det(Op& op) {
  auto [f, batch] = factor_argument(op, "A", factors_transpose(op, "A"));
  Value determinant = permutation_sign(f.pivots, f.lu.element()) * reduce_product(diagonal_of(f.lu), {1});
  return {reshape(determinant, batch), with_batch(f.lu, batch), vectors_with_batch(f.pivots, batch)};
}

Results linalg_slogdet(Op& op) {
  auto [f, batch] = factor_argument(op, "A", factors_transpose(op, "A"));
  Value diagonal = diagonal_of(f.lu);
  Value size = abs(diagonal);
  Value unit = is_complex(diagonal.element()) ? select(equal(size, constant_like(size, 0)), constant_like(diagonal, 0),
                                                       scale(diagonal, constant_like(size, 1) / size))
                                              : sign(diagonal);
  Value sign = permutation_sign(f.pivots, f.lu.element()) * reduce_product(unit, {1});
  return {reshape(sign, batch), reshape(reduce_sum(log(size), {1}), batch), with_batch(f.lu, batch),
          vectors_with_batch(f.pivots, batch)};
}

}  // namespace

LuFactors factor_lu(Value a) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), m = a.dim(1), n = a.dim(2), k = std::min(m, n);
  Elimination e{a, iota(b, ElementType::kS32, {batch, m}, 1), s32(b, 0, {batch, k}), s32(b, 0, {batch})};
  if (a.numel() == 0) return {a, e.pivots, e.permutation, e.info};
  if (k <= kPanel) {
    e = eliminate(e, s32(b, 0), k);
  } else {
    const int64_t panels = k / kPanel, rest = k % kPanel;
    auto body = [&](Value j, std::span<const Value> s) -> std::vector<Value> {
      Elimination r = eliminate_panel({s[0], s[1], s[2], s[3]}, j * s32(b, kPanel), kPanel);
      return {r.a, r.permutation, r.pivots, r.info};
    };
    std::vector<Value> s = counted_loop({e.a, e.permutation, e.pivots, e.info}, 0, panels, body);
    e = {s[0], s[1], s[2], s[3]};
    if (rest > 0) e = eliminate_panel(e, s32(b, panels * kPanel), rest);
  }
  return {e.a, e.pivots, e.permutation, e.info};
}

Value permutation_of(Value pivots, int64_t m, bool inverse) {
  Builder& b = pivots.builder();
  const int64_t batch = pivots.dim(0), k = pivots.dim(1);
  Value order = iota(b, ElementType::kS32, {batch, m}, 1), index = order;
  if (batch == 0 || k == 0) return order;
  Value zero = s32(b, 0);
  auto body = [&](Value j, std::span<const Value> s) -> std::vector<Value> {
    Value p = s[0];
    const Value at[2] = {zero, j};
    Value target = dynamic_slice(pivots, at, {batch, 1}) - s32(b, 1, {batch, 1});
    Value here = dynamic_slice(p, at, {batch, 1});
    Value is_target = equal(index, expand(target, index));
    Value there = reshape(reduce_sum(select(is_target, p, constant_like(p, 0)), {1}), {batch, 1});
    return {select(equal(index, expand(j, index)), expand(there, p), select(is_target, expand(here, p), p))};
  };
  return inverse ? counted_loop({order}, k - 1, -1, body)[0] : counted_loop({order}, 0, k, body)[0];
}

Value solve_lu(Value lu, Value pivots, Value b, bool adjoint_of_a) {
  if (b.numel() == 0) return b;
  const int64_t n = lu.dim(1);
  if (!adjoint_of_a) {
    b = take_rows(b, permutation_of(pivots, n, false));
    return solve_triangular(lu, solve_triangular(lu, b, true, true, true), true, false, false);
  }
  b = solve_triangular(lu, b, true, false, false, Transpose::kAdjoint);
  b = solve_triangular(lu, b, true, true, true, Transpose::kAdjoint);
  return take_rows(b, permutation_of(pivots, n, true));
}

void register_linalg_lu(Registry& r) {
  r.add("linalg_lu_factor_ex", linalg_lu_factor_ex).note("blocked LU with partial pivoting");
  r.add("linalg_lu", linalg_lu).note("blocked LU with partial pivoting");
  r.add("lu_unpack", lu_unpack);
  r.add("linalg_lu_solve", linalg_lu_solve).note("XLA's triangular solves");
  r.add("_linalg_solve_ex", linalg_solve_ex).note("blocked LU with partial pivoting, triangular solves");
  r.add("linalg_inv_ex", linalg_inv_ex).note("blocked LU with partial pivoting, triangular solves");
  r.add("_linalg_det", linalg_det).note("blocked LU with partial pivoting");
  r.add("_linalg_slogdet", linalg_slogdet).note("blocked LU with partial pivoting");
}

}  // namespace torch_tpu::lowering
