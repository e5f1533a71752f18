// Reductions that pick an element: argmax, max.dim, median, mode, kthvalue. Also histc.
#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/registry.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// A dim of the argument to reduce, as a rank >= 1 value with the size-1 form and the final form of its results.
struct Selection {
  Value x;  // rank >= 1
  int64_t dim = 0, size = 1;
  Dims result_dims;

  Selection(const Op& op, Value self, int64_t requested, bool keepdim) : x(at_least_1d(self)) {
    dim = wrap_dim(requested, self.rank());
    size = x.dims()[static_cast<size_t>(dim)];
    result_dims = self.dims();
    if (self.rank() > 0) {
      result_dims[static_cast<size_t>(dim)] = 1;
      if (!keepdim) result_dims.erase(result_dims.begin() + dim);
    }
    if (size == 0)
      throw CallIndexError(op.name().substr(0, op.name().find('.')) + "(): Expected reduction dim " +
                           std::to_string(dim) + " to have non-zero size.");
  }
  Value spread(Value reduced) const {  // a value without `dim`, back to the dims of x
    return broadcast_to(keep_dims(reduced, x.dims(), {dim}), x.dims());
  }
  Value positions() const { return iota(x.builder(), index_type(size), x.dims(), dim); }
  // The first position at which `mask` holds; `size` where there is none.
  Value first(Value mask) const {
    Value i = positions();
    return reduce_min(select(mask, i, constant_like(i, size)), {dim});
  }
  // x at a position of each slice.
  Value pick(Value values, Value position) const {
    Value hit = equal(positions(), spread(position));
    // Not a masked sum, which would lose -0.
    return reduce_dim(std::vector<Value>{values, hit},
                      std::vector<Value>{constant(x.builder(), values.element(), 0),
                                         constant(x.builder(), ElementType::kPred, false)},
                      dim, [](std::span<const Value> a) {
                        return std::vector<Value>{select(a[3], a[2], a[0]), logical_or(a[1], a[3])};
                      })[0];
  }
  Results finish(Value values, Value indices) const {
    return {reshape(values, result_dims), convert(reshape(indices, result_dims), ElementType::kS64)};
  }
};

// Extreme value and its first position; NaN counts as the extreme.
std::pair<Value, Value> extreme_of(const Selection& s, bool largest) {
  Value value = largest ? reduce_max(s.x, {s.dim}) : reduce_min(s.x, {s.dim});
  Value hit = equal(s.x, s.spread(value));
  if (is_floating(s.x.element())) hit = logical_or(hit, is_nan(s.x));
  return {value, s.first(hit)};
}

Results extreme_dim(Op& op, bool largest) {
  Selection s(op, op.tensor("self"), op.integer("dim"), op.boolean("keepdim"));
  auto [value, index] = extreme_of(s, largest);
  return s.finish(value, index);
}
Results max_dim(Op& op) { return extreme_dim(op, true); }
Results min_dim(Op& op) { return extreme_dim(op, false); }

Value arg_extreme(Op& op, bool largest) {
  Value x = op.tensor("self");
  if (op.has("dim")) {
    Selection s(op, x, op.integer("dim"), op.boolean("keepdim"));
    return convert(reshape(extreme_of(s, largest).second, s.result_dims), ElementType::kS64);
  }
  if (x.numel() == 0)
    throw CallIndexError(op.name() + "(): Expected reduction dim to be specified for input.numel() == 0.");
  Selection s(op, flatten(x), 0, false);
  Value index = convert(extreme_of(s, largest).second, ElementType::kS64);
  return reshape(index, op.boolean("keepdim") ? Dims(x.dims().size(), 1) : Dims{});
}
Value argmax(Op& op) { return arg_extreme(op, true); }
Value argmin(Op& op) { return arg_extreme(op, false); }

// The lower median and its position. NaN is the median of a slice that has one, unless NaNs are to be ignored.
std::pair<Value, Value> median_of(const Selection& s, bool ignore_nan) {
  Sorted sorted = sort_with_indices(s.x, s.dim, false);
  const int64_t middle = (s.size - 1) / 2;
  auto at_middle = [&](Value v) {
    Dims dims = v.dims();
    dims.erase(dims.begin() + s.dim);
    return reshape(slice_dim(v, s.dim, middle, middle + 1), dims);
  };
  if (!is_floating(s.x.element())) return {at_middle(sorted.values), at_middle(sorted.indices)};
  Value nan = is_nan(s.x);
  if (ignore_nan) {
    const ElementType index = sorted.indices.element();
    Value count = reduce_sum(convert(logical_not(nan), index), {s.dim});
    Value k = maximum(count - constant_like(count, 1), constant_like(count, 0));
    k = shift_right_logical(k, constant_like(k, 1));
    return {s.pick(sorted.values, k), s.pick(sorted.indices, k)};
  }
  Value first_nan = s.first(nan);
  Value has_nan = less(first_nan, constant_like(first_nan, s.size));
  Value value = at_middle(sorted.values), index = at_middle(sorted.indices);
  return {select(has_nan, quiet_nan(s.x.builder(), value.element(), value.dims()), value),
          select(has_nan, first_nan, index)};
}

Value median_all(Op& op, bool ignore_nan) {
  Value x = flatten(op.tensor("self"));
  if (x.numel() == 0) {
    if (is_floating(x.element())) return quiet_nan(op.builder(), x.element());
    return constant(op.builder(), x.element(), integer_min(x.element()));
  }
  return median_of(Selection(op, x, 0, false), ignore_nan).first;
}
Value median(Op& op) { return median_all(op, false); }
Value nanmedian(Op& op) { return median_all(op, true); }

Results median_along(Op& op, bool ignore_nan) {
  Selection s(op, op.tensor("self"), op.integer("dim"), op.boolean("keepdim"));
  auto [value, index] = median_of(s, ignore_nan);
  return s.finish(value, index);
}
Results median_dim(Op& op) { return median_along(op, false); }
Results nanmedian_dim(Op& op) { return median_along(op, true); }

Results kthvalue(Op& op) {
  Selection s(op, op.tensor("self"), op.integer("dim"), op.boolean("keepdim"));
  const int64_t k = op.integer("k");
  if (k < 1 || k > s.size)
    throw CallError("kthvalue(): selected number k out of range for dimension " + std::to_string(s.dim));
  Sorted sorted = sort_with_indices(s.x, s.dim, false);
  return s.finish(slice_dim(sorted.values, s.dim, k - 1, k), slice_dim(sorted.indices, s.dim, k - 1, k));
}

// The smallest of the most frequent values, at its last position: the end of the first longest run in sorted order.
Results mode(Op& op) {
  Selection s(op, op.tensor("self"), op.integer("dim"), op.boolean("keepdim"));
  Sorted sorted = sort_with_indices(s.x, s.dim, false);
  Value i = s.positions(), zero = constant_like(i, 0);
  Value run_start = i;
  if (s.size > 1) {
    Value same = equal(slice_dim(sorted.values, s.dim, 1, s.size), slice_dim(sorted.values, s.dim, 0, s.size - 1));
    Dims low(s.x.dims().size(), 0);
    low[static_cast<size_t>(s.dim)] = 1;
    same = pad(same, constant(op.builder(), ElementType::kPred, false), low, Dims(low.size(), 0));
    run_start = inclusive_scan(select(same, zero, i), constant(op.builder(), i.element(), 0), s.dim, maximum);
  }
  Value length = i - run_start;
  Value longest = reduce_max(length, {s.dim});
  Value end = s.first(equal(length, s.spread(longest)));
  return s.finish(s.pick(sorted.values, end), s.pick(sorted.indices, end));
}

// Counts in `bins` equal bins of [min, max]; the range of the data where both are equal. Edges as at::linspace.
Value histc(Op& op) {
  const ElementType out = op.element("self");
  const int64_t bins = op.integer("bins");
  if (bins <= 0) throw CallError("torch.histc(): bins must be > 0");
  Builder& b = op.builder();
  const ElementType type = opmath_type(out);
  Value x = flatten(op.tensor("self", type));
  const int64_t n = x.numel();
  if (n == 0) return constant(b, out, 0, {bins});
  Value low = op.scalar("min", type), high = op.scalar("max", type);
  Value automatic = equal(low, high);
  low = select(automatic, reduce_min(x, {0}), low);
  high = select(automatic, reduce_max(x, {0}), high);
  Value flat = equal(low, high), one = constant(b, type, 1);
  low = select(flat, low - one, low);
  high = select(flat, high + one, high);
  Value step = (high - low) / constant(b, type, bins);
  const ElementType index = ElementType::kS32;
  auto edge = [&](Value i) {
    Value from_low = like(i, low) + like(i, step) * convert(i, type);
    Value from_high = like(i, high) - like(i, step) * convert(constant_like(i, bins) - i, type);
    return select(less(i, constant_like(i, (bins + 1) / 2)), from_low, from_high);
  };
  Value inside = logical_and(greater_equal(x, like(x, low)), less_equal(x, like(x, high)));
  Value guess = floor((x - like(x, low)) * constant_like(x, bins) / like(x, high - low));
  guess = select(inside, guess, constant_like(guess, 0));
  Value bin = convert(guess, index), last = constant_like(bin, bins - 1), first = constant_like(bin, 0);
  bin = maximum(minimum(bin, last), first);
  // The quotient may round across an edge.
  bin = select(less(x, edge(bin)), bin - constant_like(bin, 1), bin);
  bin = select(greater_equal(x, edge(bin + constant_like(bin, 1))), bin + constant_like(bin, 1), bin);
  bin = maximum(minimum(bin, last), first);
  bin = select(inside, bin, constant_like(bin, bins));  // out of range: skipped by the scatter
  ScatterDims dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = 1;
  return convert(scatter(constant(b, type, 0, {bins}), bin, constant(b, type, 1, {n}), dims, add), out);
}

}  // namespace

void register_reduce_select(Registry& r) {
  r.add("argmax", argmax);
  r.add("argmin", argmin);
  r.add("max.dim", max_dim);
  r.add("min.dim", min_dim);
  r.add("median", median);
  r.add("nanmedian", nanmedian);
  r.add("median.dim", median_dim);
  r.add("nanmedian.dim", nanmedian_dim);
  r.add("kthvalue", kthvalue);
  r.add("mode", mode);
  r.add("histc", histc);
}

}  // namespace torch_tpu::lowering
