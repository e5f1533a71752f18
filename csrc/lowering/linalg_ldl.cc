// Bunch and Kaufman's L D L^H or L D L^T, with D of 1 x 1 and 2 x 2 blocks, as LAPACK's sytrf and hetrf store it
// (lower).
#include <cmath>

#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

namespace {

// Rows of a batch advance at their own pace, so positions are [batch] and elements are picked by masks. All vectors
// here are [batch, n].
struct At {
  Value index;  // s32 [batch, n]: 0, 1, ...
  Value wide(Value x) const { return broadcast_in_dim(x, index.dims(), {0}); }
  Value is(Value position) const { return equal(index, wide(position)); }
  Value behind(Value position) const { return greater(index, wide(position)); }
};

Value column_of(Value s, Value is) {
  return reduce_sum(select(broadcast_in_dim(is, s.dims(), {0, 2}), s, constant_like(s, 0)), {2});
}
Value entry(Value vector, Value is) { return reduce_sum(select(is, vector, constant_like(vector, 0)), {1}); }
Value modulus_1(Value x) { return is_complex(x.element()) ? abs(real(x)) + abs(imag(x)) : abs(x); }
Value masked(Value x, Value is) { return select(is, x, constant_like(x, 0)); }

// x y^T of [batch, n] vectors.
Value outer(Value x, Value y) {
  const Dims dims{x.dim(0), x.dim(1), y.dim(1)};
  return broadcast_in_dim(x, dims, {0, 1}) * broadcast_in_dim(y, dims, {0, 2});
}

Value with_column(Value matrix, Value column, Value is, Value rows) {
  Value here = logical_and(broadcast_in_dim(is, matrix.dims(), {0, 2}), broadcast_in_dim(rows, matrix.dims(), {0, 1}));
  return select(here, broadcast_in_dim(column, matrix.dims(), {0, 1}), matrix);
}

struct Ldl {
  Value ld, pivots, info;
};

Ldl factor_ldl(Value a, bool hermitian) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), n = a.dim(1);
  const bool conjugates = hermitian && is_complex(a.element());
  const At at{iota(b, ElementType::kS32, {batch, n}, 1)};
  Value one = s32(b, 1, {batch}), zero = s32(b, 0, {batch});
  auto mirror = [&](Value x) { return conjugates ? conjugate_of(x) : x; };
  // The lower half and its mirror image, with a real diagonal where Hermitian. Repeated after every step: rounding that
  // broke the symmetry would grow from step to step.
  auto symmetric = [&](Value x) {
    Value strict = triangle(x, true, -1);
    Value diagonal = masked(x, equal(row_index(x), column_index(x)));
    if (conjugates) diagonal = to_type(real(diagonal), x.element());
    return strict + diagonal + (conjugates ? adjoint(strict) : transpose_matrix(strict));
  };
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  auto body = [&](std::span<const Value> st) -> std::vector<Value> {
    Value k = st[0], s = st[1], ld = st[2], pivots = st[3], info = st[4];
    Value active = less(k, s32(b, n, {batch}));
    Value is_k = at.is(k), behind_k = at.behind(k);
    // The pivot: entry k, entry r, or the block of k and r, where r has the largest entry of column k.
    Value column = column_of(s, is_k);
    Value size_k = modulus_1(entry(column, is_k));
    Value sizes = select(behind_k, modulus_1(column), -1.0);
    Value column_max = maximum(reduce_max(sizes, {1}), constant_like(size_k, 0));
    Value largest = reduce_max(sizes, {1});
    Value r = reduce_min(select(equal(sizes, at.wide(largest)), at.index, s32(b, n, at.index.dims())), {1});
    r = minimum(r, s32(b, n - 1, {batch}));
    Value is_r = at.is(r);
    Value column_r = column_of(s, is_r);
    Value size_r = modulus_1(entry(column_r, is_r));
    Value others = logical_and(logical_or(is_k, behind_k), logical_not(is_r));
    Value row_max = reduce_max(select(others, modulus_1(column_r), 0.0), {1});
    Value singular = equal(maximum(size_k, column_max), 0.0);
    Value keep = logical_or(greater_equal(size_k, column_max * alpha),
                            greater_equal(size_k * row_max, column_max * column_max * alpha));
    keep = logical_or(keep, singular);
    Value two = logical_and(logical_not(keep), less(size_r, row_max * alpha));
    Value with = select(keep, k, r), place = select(two, k + one, k);
    // Rows and columns `with` and `place` change places; columns of L before k stay as they are.
    Value order = select(at.is(place), at.wide(with), select(at.is(with), at.wide(place), at.index));
    s = take_rows(transpose_matrix(take_rows(s, order)), order);
    s = transpose_matrix(s);

    Value is_next = at.is(k + one);
    Value c1 = column_of(s, is_k), c2 = column_of(s, is_next);
    Value d11 = entry(c1, is_k), d21 = entry(c1, is_next), d22 = entry(c2, is_next);
    // One column.
    Value x = masked(c1, behind_k);
    Value safe = select(equal(d11, constant_like(d11, 0)), constant_like(d11, 1), d11);
    Value l = x / at.wide(safe);
    // Two columns.
    Value behind_next = at.behind(k + one);
    Value x1 = masked(c1, behind_next), x2 = masked(c2, behind_next);
    Value determinant = d11 * d22 - d21 * mirror(d21);
    determinant = select(logical_or(logical_not(two), equal(determinant, constant_like(d11, 0))), constant_like(d11, 1),
                         determinant);
    Value l1 = (x1 * at.wide(d22) - x2 * at.wide(d21)) / at.wide(determinant);
    Value l2 = (x2 * at.wide(d11) - x1 * at.wide(mirror(d21))) / at.wide(determinant);

    Value wide_two = at.wide(two), wide_active = at.wide(active);
    Value both = logical_and(wide_two, wide_active);
    Value first = select(wide_two, l1, l), first_x = select(wide_two, x1, x);
    Value update = outer(first, mirror(first_x)) + outer(masked(l2, wide_two), mirror(x2));
    Value next_s = symmetric(s - update);
    Value stored = select(is_k, at.wide(d11), select(logical_and(wide_two, is_next), at.wide(d21), first));
    ld = with_column(ld, stored, logical_and(is_k, wide_active), logical_or(is_k, behind_k));
    ld = with_column(ld, select(is_next, at.wide(d22), l2), logical_and(is_next, both),
                     logical_or(is_next, behind_next));
    Value partner = with + one;
    Value mark = select(wide_two, negate(at.wide(partner)), at.wide(partner));
    pivots = select(logical_or(logical_and(is_k, wide_active), logical_and(is_next, both)), mark, pivots);
    info = select(logical_and(logical_and(active, singular), equal(info, zero)), k + one, info);
    return {k + select(active, select(two, s32(b, 2, {batch}), one), zero), next_s, ld, pivots, info};
  };
  const Value init[5] = {zero, symmetric(a), triangle(a, true), s32(b, 0, {batch, n}), zero};
  std::vector<Value> st =
      while_loop(init, [&](std::span<const Value> s) { return reduce_or(less(s[0], s32(b, n, {batch})), {0}); }, body);
  return {st[2], st[3], st[4]};
}

Results linalg_ldl_factor_ex(Op& op) {
  Value a = op.tensor("self");
  const Dims batch = batch_of(a.dims()), vectors(a.dims().begin(), a.dims().end() - 1);
  Builder& b = op.builder();
  if (a.numel() == 0) return {a, s32(b, 0, vectors), s32(b, 0, batch)};
  Ldl f = factor_ldl(as_matrices(a), op.boolean("hermitian"));
  return {with_batch(f.ld, batch), reshape(f.pivots, vectors), reshape(f.info, batch)};
}

// x of L D L^H x = b, following sytrs: the interchanges are applied between the columns of L.
Value solve_ldl(Value ld, Value pivots, Value x, bool conjugates) {
  Builder& b = ld.builder();
  const int64_t batch = ld.dim(0), n = ld.dim(1);
  auto mirror = [&](Value v) { return conjugates ? conjugate_of(v) : v; };
  // Which positions begin a 2 x 2 block: an odd place in a run of negative pivots.
  Value negative = less(pivots, s32(b, 0, pivots.dims()));
  Value starts_init = constant(b, ElementType::kPred, false, {batch, n});
  Value zero = s32(b, 0);
  Value starts = counted_loop({starts_init, constant(b, ElementType::kPred, false, {batch, 1})}, 0, n,
                              [&](Value j, std::span<const Value> s) -> std::vector<Value> {
                                const Value here[2] = {zero, j};
                                Value begins =
                                    logical_and(dynamic_slice(negative, here, {batch, 1}), logical_not(s[1]));
                                return {dynamic_update_slice(s[0], begins, here), begins};
                              })[0];
  auto flag = [&](Value flags, Value j) {
    const Value here[2] = {zero, j};
    return reshape(dynamic_slice(flags, here, {batch, 1}), {batch, 1, 1});
  };
  auto second_of_block = [&](Value j) {
    return logical_and(flag(starts, maximum(j - s32(b, 1), zero)), expand(greater(j, zero), s32(b, 0, {batch, 1, 1})));
  };
  // Row `place` of y and the row that the pivot at j names change places, where `when`.
  auto interchange = [&](Value y, Value place, Value j, Value when) {
    const Value here[2] = {zero, j};
    Value target = abs(reshape(dynamic_slice(pivots, here, {batch, 1}), {batch, 1, 1})) - s32(b, 1, {batch, 1, 1});
    Value row = row_index(y);
    Value is_target = equal(row, expand(target, row)), is_place = equal(row, expand(place, row));
    Value at_target = reshape(reduce_sum(masked(y, is_target), {1}), {batch, 1, y.dim(2)});
    Value swapped = select(is_place, expand(at_target, y), select(is_target, expand(row_at(y, place), y), y));
    return select(expand(when, y), swapped, y);
  };
  const Value last = s32(b, n - 1);
  std::vector<Value> forward = counted_loop({x}, 0, n, [&](Value j, std::span<const Value> s) -> std::vector<Value> {
    Value two = flag(starts, j), second = second_of_block(j), next = minimum(j + s32(b, 1), last);
    Value y = interchange(s[0], j, j, logical_not(logical_or(two, second)));
    y = interchange(y, next, j, two);
    Value c1 = column_at(ld, j), c2 = column_at(ld, next);
    Value d11 = element_at(ld, j, j), d21 = element_at(ld, next, j), d22 = element_at(ld, next, next);
    Value y1 = row_at(y, j), y2 = row_at(y, next);
    Value end = select(two, expand(next, two), expand(j, two));
    Value row = row_index(c1), behind = greater(row, expand(end, row));
    Value change = expand(masked(c1, behind), y) * expand(y1, y);
    change = change + masked(expand(masked(c2, behind), y) * expand(y2, y), expand(two, y));
    Value eliminated = y - change;
    Value determinant = d11 * d22 - d21 * mirror(d21);
    determinant = select(two, determinant, constant_like(determinant, 1));
    auto wide = [&](Value v) { return expand(v, y1); };
    Value single = y1 / wide(select(two, constant_like(d11, 1), d11));
    Value first = (wide(d22) * y1 - wide(mirror(d21)) * y2) / wide(determinant);
    Value other = (wide(d11) * y2 - wide(d21) * y1) / wide(determinant);
    Value rows = row_index(y);
    Value solved =
        select(equal(rows, expand(j, rows)), expand(select(expand(two, y1), first, single), y),
               select(logical_and(equal(rows, expand(next, rows)), expand(two, y)), expand(other, y), eliminated));
    return {select(expand(second, y), y, solved)};
  });
  return counted_loop({forward[0]}, n - 1, -1, [&](Value j, std::span<const Value> s) -> std::vector<Value> {
    Value y = s[0], two = flag(starts, j), second = second_of_block(j), next = minimum(j + s32(b, 1), last);
    auto dot_rows = [&](Value column, Value behind) {
      return reshape(reduce_sum(expand(mirror(masked(column, behind)), y) * y, {1}), {batch, 1, y.dim(2)});
    };
    Value c1 = column_at(ld, j), c2 = column_at(ld, next);
    Value end = select(two, expand(next, two), expand(j, two));
    Value row = row_index(c1), behind = greater(row, expand(end, row));
    Value first = row_at(y, j) - dot_rows(c1, behind), other = row_at(y, next) - dot_rows(c2, behind);
    Value rows = row_index(y);
    Value solved = select(equal(rows, expand(j, rows)), expand(first, y),
                          select(logical_and(equal(rows, expand(next, rows)), expand(two, y)), expand(other, y), y));
    solved = interchange(solved, j, j, logical_not(logical_or(two, second)));
    solved = interchange(solved, next, j, two);
    return {select(expand(second, y), y, solved)};
  })[0];
}

Value linalg_ldl_solve(Op& op) {
  Value ld = op.tensor("LD"), x = op.tensor("B"), pivots = op.tensor("pivots", ElementType::kS32);
  Dims columns = pivots.dims();
  columns.push_back(1);
  pivots = reshape(pivots, columns);
  broadcast_batches(ld, x);
  const Dims batch = batch_of(x.dims());
  Dims pivot_dims = batch;
  pivot_dims.insert(pivot_dims.end(), columns.end() - 2, columns.end());
  pivots = as_matrices(broadcast_to(pivots, pivot_dims));
  if (x.numel() == 0) return x;
  const bool conjugates = op.boolean("hermitian") && is_complex(ld.element());
  return with_batch(
      solve_ldl(as_matrices(ld), reshape(pivots, {pivots.dim(0), pivots.dim(1)}), as_matrices(x), conjugates), batch);
}

}  // namespace

void register_linalg_ldl(Registry& r) {
  r.add("linalg_ldl_factor_ex", linalg_ldl_factor_ex).note("Bunch and Kaufman pivoting, column by column");
  r.add("linalg_ldl_solve", linalg_ldl_solve).note("block diagonal and triangular solves of Bunch and Kaufman factors");
}

}  // namespace torch_tpu::lowering
