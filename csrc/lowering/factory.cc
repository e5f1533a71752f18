// Tensors made from nothing. The "tpu." ops are called by the bridge, which has worked out sizes and dtypes; their
// bounds are runtime inputs.
#include <algorithm>
#include <cmath>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::iota;

ElementType dtype_of(const Op& op) { return op.dtype("dtype").value_or(op.numerics().default_float); }

Value fill(Op& op) { return broadcast_to(operand(op, "value", op.element("self")), op.dims("self")); }

Value zero(Op& op) { return constant(op.builder(), op.element("self"), 0, op.dims("self")); }

Value full(Op& op) { return broadcast_to(op.scalar("fill_value", dtype_of(op)), op.integers("size")); }

Value zeros(Op& op) { return constant(op.builder(), dtype_of(op), 0, op.integers("size")); }

// start + i step: whole numbers in int64, others in double, as ATen accumulates on CPU (reduced floats in f32).
Value arange(Op& op) {
  const ElementType t = dtype_of(op);
  const ElementType wide = !is_floating(t)       ? ElementType::kS64
                           : is_reduced_float(t) ? ElementType::kF32
                                                 : ElementType::kF64;
  Value index = iota(op.builder(), wide, {op.integer("size")}, 0);
  Value step = like(index, op.scalar("step", wide)), start = like(index, op.scalar("start", wide));
  return convert(start + index * step, t);
}

// ATen's symmetric form: from the start in the first half, from the end in the second.
Value linear_steps(Value start, Value end, int64_t steps) {
  Builder& b = start.builder();
  const ElementType t = start.element();
  if (steps <= 1) return broadcast_to(start, {steps});
  Value index = iota(b, is_complex(t) ? real_type(t) : t, {steps}, 0);
  Value step = (end - start) / constant(b, t, steps - 1);
  Value from_start = like(index, start) + convert(index, t) * like(index, step);
  Value left = static_cast<double>(steps - 1) - index;
  Value from_end = like(index, end) - convert(left, t) * like(index, step);
  return select(less(index, static_cast<double>(steps / 2)), from_start, from_end);
}

// The type that ATen steps in: double for integers.
ElementType step_type(ElementType t) { return is_floating(t) || is_complex(t) ? opmath_type(t) : ElementType::kF64; }

// A bound is a number of the result's type first.
Value bound(const Op& op, std::string_view arg, ElementType t) { return convert(operand(op, arg, t), step_type(t)); }

Value linspace(Op& op) {
  const ElementType t = dtype_of(op);
  return convert(linear_steps(bound(op, "start", t), bound(op, "end", t), op.integer("steps")), t);
}

Value logspace(Op& op) {
  const ElementType t = dtype_of(op);
  // Powers in f64 on CPU: f32 would lose digits in the exponent.
  const ElementType wide = special_type(op.target(), step_type(t));
  Value exponent =
      linear_steps(convert(bound(op, "start", t), wide), convert(bound(op, "end", t), wide), op.integer("steps"));
  return convert(power(like(exponent, op.scalar("base", wide)), exponent), t);
}

// Row and column numbers of a matrix in i32.
struct Grid {
  Value row, column;
};
Grid grid(Builder& b, int64_t rows, int64_t columns) {
  return {iota(b, ElementType::kS32, {rows, columns}, 0), iota(b, ElementType::kS32, {rows, columns}, 1)};
}

Value eye(Op& op) {
  auto [row, column] = grid(op.builder(), op.integer("n"), op.integer("m"));
  return convert(equal(row, column), dtype_of(op));
}

// Beyond the matrix one diagonal is like another; keeps the number within i32.
int64_t clamped_diagonal(int64_t diagonal, int64_t rows, int64_t columns) {
  return std::clamp<int64_t>(diagonal, -rows - 1, columns + 1);
}

template <bool kLower>
Value triangle(Op& op) {
  Value x = op.tensor("self");
  const int64_t rows = x.dims().at(x.dims().size() - 2), columns = x.dims().back();
  const int64_t k = clamped_diagonal(op.integer("diagonal"), rows, columns);
  auto [row, column] = grid(op.builder(), rows, columns);
  Value limit = row + constant_like(row, k);
  Value kept = kLower ? less_equal(column, limit) : greater_equal(column, limit);
  return select(broadcast_to(kept, x.dims()), x, constant_like(x, 0));
}

// Numbers of a row-major walk over a triangle: the `first` rows of the trapezoid grow (or shrink) by one from `length`.
// Gives the row t with t length +- t (t - 1) / 2 <= k < the same of t + 1, and what is left of k.
struct Position {
  Value row, column;
};
Position trapezoid_position(Value k, int64_t length, bool growing) {
  Builder& b = k.builder();
  const double sign = growing ? 1 : -1, linear = 2.0 * static_cast<double>(length) - sign;
  Value kf = convert(k, ElementType::kF64);
  Value root = sqrt(maximum(kf * (8 * sign) + linear * linear, constant(b, ElementType::kF64, 0, k.dims())));
  Value t = convert(growing ? (root - linear) * 0.5 : (linear - root) * 0.5, ElementType::kS64);
  auto before = [&](Value r) {
    Value pairs = shift_right_arithmetic(r * (r - constant_like(r, 1)), constant_like(r, 1));
    return growing ? r * constant_like(r, length) + pairs : r * constant_like(r, length) - pairs;
  };
  // The root may be off by one.
  Value one = constant_like(t, 1);
  t = select(greater(before(t), k), t - one, t);
  t = select(less_equal(before(t + one), k), t + one, t);
  return {t, k - before(t)};
}

// Row and column of element k of a block whose rows have `columns` elements.
Position rectangle_position(const Target& target, Value k, int64_t columns) {
  auto [row, column] = divide_integers(target, k, constant_like(k, std::max<int64_t>(columns, 1)));
  return {row, column};
}

Value index_pair(const Op& op, Value row, Value column) {
  const int64_t n = row.numel();
  const Value rows[] = {reshape(row, {1, n}), reshape(column, {1, n})};
  return convert(concatenate(rows, 0), op.dtype("dtype").value_or(ElementType::kS64));
}

Value tril_indices(Op& op) {
  const int64_t rows = op.integer("row"), columns = op.integer("col");
  const int64_t offset = clamped_diagonal(op.integer("offset"), rows, columns);
  // Rows before the triangle are empty, those after its widest are full.
  const int64_t first_row = std::clamp<int64_t>(-offset, 0, rows);
  const int64_t first_length = std::clamp<int64_t>(offset + 1 + first_row, 0, columns);
  const int64_t full_from = std::clamp<int64_t>(columns - offset, first_row, rows);  // limit of the growing rows
  const int64_t growing = full_from - first_row;
  const int64_t trapezoid = growing * first_length + growing * (growing - 1) / 2;
  const int64_t total = columns == 0 ? 0 : trapezoid + (rows - full_from) * columns;
  Value k = iota(op.builder(), ElementType::kS64, {total}, 0);
  Position p = trapezoid_position(k, first_length, true);
  Position r = rectangle_position(op.target(), k - constant_like(k, trapezoid), columns);
  Value in_trapezoid = less(k, constant_like(k, trapezoid));
  return index_pair(op, select(in_trapezoid, p.row + constant_like(k, first_row), r.row + constant_like(k, full_from)),
                    select(in_trapezoid, p.column, r.column));
}

Value triu_indices(Op& op) {
  const int64_t rows = op.integer("row"), columns = op.integer("col");
  const int64_t offset = clamped_diagonal(op.integer("offset"), rows, columns);
  const int64_t full = std::clamp<int64_t>(-offset + 1, 0, rows);  // rows from column 0
  const int64_t first_length = std::clamp<int64_t>(columns - (full + offset), 0, columns);
  const int64_t shrinking = std::clamp<int64_t>(rows - full, 0, first_length);
  const int64_t rectangle = full * columns;
  const int64_t total = rectangle + shrinking * first_length - shrinking * (shrinking - 1) / 2;
  Value k = iota(op.builder(), ElementType::kS64, {total}, 0);
  Value past = maximum(k - constant_like(k, rectangle), constant_like(k, 0));
  Position p = trapezoid_position(past, first_length, false);
  Position r = rectangle_position(op.target(), k, columns);
  Value row = p.row + constant_like(k, full);
  Value column = p.column + row + constant_like(k, offset);
  Value in_rectangle = less(k, constant_like(k, rectangle));
  return index_pair(op, select(in_rectangle, r.row, row), select(in_rectangle, r.column, column));
}

}  // namespace

void register_factory(Registry& r) {
  r.add("fill.Scalar", fill).like("self");
  r.add("fill.Tensor", fill).like("self");
  r.add("zero", zero).like("self");
  r.add("tril", triangle<true>);
  r.add("triu", triangle<false>);
  r.add_internal("tpu.full", full);
  r.add_internal("tpu.zeros", zeros);
  r.add_internal("tpu.arange", arange);
  r.add_internal("tpu.linspace", linspace);
  r.add_internal("tpu.logspace", logspace);
  r.add_internal("tpu.eye", eye);
  r.add_internal("tpu.tril_indices", tril_indices);
  r.add_internal("tpu.triu_indices", triu_indices);
}

}  // namespace torch_tpu::lowering
