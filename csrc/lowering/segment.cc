// segment_reduce: reductions over runs of rows whose lengths (or bounds) are data. One id a row, then a scatter.
#include <cmath>
#include <limits>

#include "lowering/indexing.h"
#include "lowering/math.h"
#include "lowering/registry.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// `data` as [batches * rows, inner], and the segment of each row: a flat number over all batches, or one past the last
// where the row is in none.
struct Segments {
  int64_t batches = 1, rows = 0, inner = 1, count = 0;  // `count` segments in each batch
  Dims result;                                          // dims of the reduced tensor
  Value ids, lengths;                                   // [batches * rows], [batches * count]
  Value flat_rows(Value v) const { return reshape(v, {batches * rows, inner}); }
  Value flat_segments(Value v) const { return reshape(v, {batches * count, inner}); }
  Value wide(Value per_segment) const { return broadcast_in_dim(per_segment, {batches * count, inner}, {0}); }
  // What each row reads of its segment; rows in none read some segment's.
  Value of_row(Value per_segment) const { return take(per_segment, ids, 0); }
  Value reduce(Value base, Value updates, const Combine& combine) const {
    return scatter_slices(base, 0, ids, updates, combine);
  }
};

Segments segments_of(Op& op) {
  Builder& b = op.builder();
  const bool by_length = !op.has("offsets");  // which win
  if (by_length && !op.has("lengths")) throw CallError("segment_reduce(): Either lengths or offsets must be defined.");
  const Dims& data = op.dims("data");
  Value given = op.tensor(by_length ? "lengths" : "offsets", ElementType::kS64);
  const int64_t axis = wrap_dim(op.integer("axis"), static_cast<int64_t>(data.size()));
  if (axis != given.rank() - 1)
    throw CallError("segment_reduce(): Expected axis to be the last dim of lengths but got " + std::to_string(axis) +
                    ".");
  Segments s;
  for (int64_t d = 0; d < static_cast<int64_t>(data.size()); ++d)
    (d < axis ? s.batches : d > axis ? s.inner : s.rows = 1) *= data[static_cast<size_t>(d)];
  s.count = given.dim(given.rank() - 1) - (by_length ? 0 : 1);
  s.result = data;
  s.result[static_cast<size_t>(axis)] = s.count;
  given = reshape(given, {s.batches, by_length ? s.count : s.count + 1});
  Value ends;
  if (by_length) {
    s.lengths = given;
    ends = given.numel() == 0 ? given : inclusive_scan(given, constant(b, ElementType::kS64, 0), 1, add);
  } else {
    ends = slice_dim(given, 1, 1, s.count + 1);
    s.lengths = ends - slice_dim(given, 1, 0, s.count);
  }
  s.lengths = flatten(s.lengths);
  // The backward has been through this in its forward.
  const bool checked = op.arguments().contains("unsafe") && !op.boolean("unsafe");
  if (by_length && checked && given.numel() > 0) {
    Value total = slice_dim(ends, 1, s.count - 1, s.count);
    op.context().report(Fault::kBadLengths,
                        logical_or(any(less(given, 0)), any(not_equal(total, constant_like(total, s.rows)))));
  }
  Value row = iota(b, ElementType::kS64, {s.batches, s.rows}, 1);
  if (s.count == 0 || s.rows == 0) {
    s.ids = constant(b, ElementType::kS64, s.batches * s.count, {s.batches * s.rows});
    return s;
  }
  // The segment of a row is the number of segments that end at it or before.
  Value id = convert(search_rows(ends, row, /*right=*/true, /*nan_is_largest=*/false), ElementType::kS64);
  Value outside = greater_equal(id, constant_like(id, s.count));
  if (!by_length) {
    Value first = broadcast_to(slice_dim(given, 1, 0, 1), row.dims());
    outside = logical_or(outside, stablehlo::less(row, first));
  }
  Value base = iota(b, ElementType::kS64, row.dims(), 0) * constant_like(row, s.count);
  s.ids = flatten(select(outside, constant_like(id, s.batches * s.count), base + id));
  return s;
}

constexpr double kInf = std::numeric_limits<double>::infinity();

double identity_of(const std::string& reduce) {
  if (reduce == "max") return -kInf;
  if (reduce == "min") return kInf;
  if (reduce == "prod") return 1;
  if (reduce == "sum" || reduce == "mean") return 0;
  throw CallError("segment_reduce(): unsupported reduction " + reduce);
}

// XLA's CPU backend loses a NaN update in a scatter by maximum or minimum.
Value keep_greater(Value old, Value update) {
  return select(logical_or(is_nan(old), stablehlo::greater(old, update)), old, update);
}
Value keep_less(Value old, Value update) {
  return select(logical_or(is_nan(old), stablehlo::less(old, update)), old, update);
}

Value segment_reduce(Op& op) {
  const Segments s = segments_of(op);
  const std::string& reduce = op.string("reduce");
  const ElementType type = opmath_type(op.element("data"));
  Value data = s.flat_rows(op.tensor("data", type));
  const Dims dims{s.batches * s.count, s.inner};
  const bool has_initial = op.has("initial");
  Value base = has_initial ? broadcast_to(op.scalar("initial", type), dims)
                           : constant(op.builder(), type, identity_of(reduce), dims);
  const Combine combine = reduce == "max"    ? Combine(keep_greater)
                          : reduce == "min"  ? Combine(keep_less)
                          : reduce == "prod" ? Combine(multiply)
                                             : Combine(add);
  Value result = s.reduce(base, data, combine);
  if (reduce == "mean") {
    Value length = s.wide(convert(s.lengths, type));
    Value empty = less_equal(length, 0);
    Value of_empty = has_initial ? base : constant_like(base, std::nan(""));
    result = select(empty, of_empty, result / select(empty, 1.0, length));
  }
  return convert(reshape(result, s.result), op.element("data"));
}

// The product of a row's segment without the row: by division, except where the row is zero.
Value product_of_others(Op& op, const Segments& s, Value data, Value output) {
  const ElementType type = data.element();
  const Dims dims{s.batches * s.count, s.inner};
  Value zero = equal(data, 0);
  Value zeros_of = s.reduce(constant(op.builder(), type, 0, dims), convert(zero, type), add);
  Value start =
      op.has("initial") ? broadcast_to(op.scalar("initial", type), dims) : constant(op.builder(), type, 1, dims);
  Value nonzero = s.reduce(start, select(zero, 1.0, data), multiply);
  Value for_zero = select(equal(s.of_row(zeros_of), 1), s.of_row(nonzero), 0.0);
  return select(zero, for_zero, s.of_row(output) / select(zero, 1.0, data));
}

Value segment_reduce_backward(Op& op) {
  const Segments s = segments_of(op);
  const std::string& reduce = op.string("reduce");
  const ElementType type = opmath_type(op.element("data"));
  const Dims& result = op.dims("data");
  if (s.batches * s.count == 0 || s.rows == 0) return constant(op.builder(), op.element("data"), 0, result);
  Value grad = s.flat_segments(op.tensor("grad", type));
  Value data = s.flat_rows(op.tensor("data", type));
  Value output = s.flat_segments(op.tensor("output", type));
  Value row_grad;
  if (reduce == "max" || reduce == "min") {
    // Shared evenly by the rows that attain the extreme.
    Value attains = logical_or(stablehlo::equal(data, s.of_row(output)), is_nan(data));
    Value shares = s.reduce(constant_like(grad, 0), convert(attains, type), add);
    row_grad = select(attains, s.of_row(grad / select(equal(shares, 0), 1.0, shares)), 0.0);
  } else if (reduce == "mean") {
    Value length = s.wide(convert(s.lengths, type));
    row_grad = s.of_row(grad / select(less_equal(length, 0), 1.0, length));
  } else if (reduce == "prod") {
    row_grad = s.of_row(grad) * product_of_others(op, s, data, output);
  } else {
    row_grad = s.of_row(grad);
  }
  Value inside = broadcast_in_dim(stablehlo::less(s.ids, constant_like(s.ids, s.batches * s.count)), data.dims(), {0});
  return convert(reshape(select(inside, row_grad, 0.0), result), op.element("data"));
}

}  // namespace

void register_segment(Registry& r) {
  // PyTorch's meta kernel counts the lengths, where the CPU's kernel goes by the offsets.
  r.add("segment_reduce", segment_reduce).own_results();
  r.add("_segment_reduce_backward", segment_reduce_backward);
}

}  // namespace torch_tpu::lowering
