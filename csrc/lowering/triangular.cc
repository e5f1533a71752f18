// Triangular solves and Cholesky factors.
#include "lowering/linalg.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

Results triangular_solve_op(Op& op) {
  Value b = op.tensor("self"), a = op.tensor("A");
  broadcast_batches(a, b);
  const Transpose t = op.boolean("transpose") ? Transpose::kTranspose : Transpose::kNone;
  return {solve_triangular(a, b, true, !op.boolean("upper"), op.boolean("unitriangular"), t), a};
}

Value linalg_solve_triangular(Op& op) {
  Value a = op.tensor("self"), b = op.tensor("B");
  broadcast_batches(a, b);
  return solve_triangular(a, b, op.boolean("left"), !op.boolean("upper"), op.boolean("unitriangular"),
                          Transpose::kNone);
}

// The factor; a matrix that is not positive definite gives NaN.
Value factor(Value a, bool upper) { return a.numel() == 0 ? a : triangle(stablehlo::cholesky(a, !upper), !upper); }

// 1 + the first pivot that is not positive, 0 if there is none: LAPACK's info. Elimination column by column, run only
// when some factor failed.
Value first_bad_pivot(Value a, bool upper) {
  Builder& b = a.builder();
  const int64_t n = a.dims().back();
  Dims batch(a.dims().begin(), a.dims().end() - 2);
  int64_t count = 1;
  for (int64_t d : batch) count *= d;
  // Only one triangle counts.
  Value half = triangle(a, !upper);
  Value diagonal = equal(row_index(a), column_index(a));
  Value full = add(half, select(diagonal, constant_like(half, 0), adjoint(half)));
  full = reshape(full, {count, n, n});
  Value zero = constant(b, ElementType::kS32, 0);
  const Value init[3] = {zero, full, constant(b, ElementType::kS32, 0, {count})};
  auto body = [&](std::span<const Value> s) -> std::vector<Value> {
    Value j = s[0], m = s[1];
    const Value at_column[3] = {zero, zero, j}, at_row[3] = {zero, j, zero}, at_pivot[3] = {zero, j, j};
    Value column = dynamic_slice(m, at_column, {count, n, 1}), row = dynamic_slice(m, at_row, {count, 1, n});
    Value pivot = dynamic_slice(m, at_pivot, {count, 1, 1});
    Value good = reshape(greater(real(pivot), constant_like(real(pivot), 0)), {count});
    Value next = add(j, constant(b, ElementType::kS32, 1));
    Value bad = logical_and(equal(s[2], constant_like(s[2], 0)), logical_not(good));
    Value info = select(bad, broadcast_to(next, {count}), s[2]);
    Value update =
        divide(multiply(broadcast_to(column, m.dims()), broadcast_to(row, m.dims())), broadcast_to(pivot, m.dims()));
    return {next, subtract(m, update), info};
  };
  auto more = [&](std::span<const Value> s) { return less(s[0], constant(b, ElementType::kS32, n)); };
  return reshape(while_loop(init, more, body)[2], batch);
}

Results linalg_cholesky_ex(Op& op) {
  Value a = op.tensor("self");
  const bool upper = op.boolean("upper");
  const Dims batch(a.dims().begin(), a.dims().end() - 2);
  Value none = constant(op.builder(), ElementType::kS32, 0, batch);
  if (a.numel() == 0) return {a, none};
  Value l = factor(a, upper);
  Value failed = reduce_or(is_nan(l), all_dims(l.rank()));
  Value info = if_then_else(
      failed, [&] { return std::vector<Value>{first_bad_pivot(a, upper)}; },
      [&] { return std::vector<Value>{none}; })[0];
  return {l, info};
}

// a^-1 b from the factor of a.
Value solve_with_factor(Value l, Value b, bool upper) {
  if (b.numel() == 0) return b;
  Value y = solve_triangular(l, b, true, !upper, false, upper ? Transpose::kAdjoint : Transpose::kNone);
  return solve_triangular(l, y, true, !upper, false, upper ? Transpose::kNone : Transpose::kAdjoint);
}

Value cholesky_solve_helper(Op& op) {
  return solve_with_factor(op.tensor("A"), op.tensor("self"), op.boolean("upper"));
}

Value cholesky_inverse(Op& op) {
  Value l = op.tensor("self");
  if (l.numel() == 0) return l;
  Value on_diagonal = equal(row_index(l), column_index(l));
  op.context().report(Fault::kSingular, any(logical_and(on_diagonal, equal(l, constant_like(l, 0)))));
  Value identity = convert(on_diagonal, l.element());
  return solve_with_factor(l, identity, op.boolean("upper"));
}

}  // namespace

void register_triangular(Registry& r) {
  r.add("triangular_solve", triangular_solve_op).note("XLA's triangular solve");
  r.add("linalg_solve_triangular", linalg_solve_triangular).note("XLA's triangular solve");
  r.add("linalg_cholesky_ex", linalg_cholesky_ex).note("XLA's Cholesky factorization");
  r.add("_cholesky_solve_helper", cholesky_solve_helper).note("XLA's triangular solves");
  r.add("cholesky_inverse", cholesky_inverse).note("XLA's triangular solves");
}

}  // namespace torch_tpu::lowering
