#include "lowering/windows.h"

#include <algorithm>
#include <limits>

#include "lowering/helpers.h"

namespace torch_tpu::lowering {
using namespace stablehlo;

int64_t SlidingWindow::positions() const {
  int64_t n = 1;
  for (int64_t k : kernel) n *= k;
  return n;
}

Dims expand_ints(const Dims& values, size_t n, const Dims& otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? Dims(n, values[0]) : values;
}

std::vector<Dims> kernel_offsets(const Dims& kernel) {
  std::vector<Dims> offsets{Dims{}};
  for (int64_t k : kernel) {
    std::vector<Dims> longer;
    for (const Dims& o : offsets)
      for (int64_t i = 0; i < k; ++i) {
        longer.push_back(o);
        longer.back().push_back(i);
      }
    offsets = std::move(longer);
  }
  return offsets;
}

Value pad_windows(Value x, const SlidingWindow& w, Value fill) {
  const size_t lead = x.dims().size() - w.rank();
  Dims low(x.dims().size(), 0), high = low;
  for (size_t i = 0; i < w.rank(); ++i) {
    low[lead + i] = w.low[i];
    high[lead + i] = (w.output[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - w.input[i] - w.low[i];
  }
  return pad(x, fill, low, high);
}

Value window_position(Value padded, const SlidingWindow& w, const Dims& offset) {
  const size_t lead = padded.dims().size() - w.rank();
  Dims start(padded.dims().size(), 0), limit = padded.dims(), stride(start.size(), 1);
  for (size_t i = 0; i < w.rank(); ++i) {
    start[lead + i] = offset[i] * w.dilation[i];
    limit[lead + i] = start[lead + i] + (w.output[i] - 1) * w.stride[i] + 1;
    stride[lead + i] = w.stride[i];
  }
  return slice(padded, start, limit, stride);
}

Value unwindow_position(Value x, const SlidingWindow& w, const Dims& offset) {
  const size_t lead = x.dims().size() - w.rank();
  Dims low(x.dims().size(), 0), high = low, interior = low;
  for (size_t i = 0; i < w.rank(); ++i) {
    low[lead + i] = offset[i] * w.dilation[i] - w.low[i];
    interior[lead + i] = w.stride[i] - 1;
    high[lead + i] = w.input[i] - low[lead + i] - ((w.output[i] - 1) * w.stride[i] + 1);
  }
  return pad(x, constant(x.builder(), x.element(), 0), low, high, interior);
}

Value take_constant(Value x, int64_t dim, const Dims& indices) {
  const int64_t n = static_cast<int64_t>(indices.size());
  const int64_t size = x.dim(static_cast<int>(dim));
  Builder& b = x.builder();
  Dims dims = x.dims();
  dims[static_cast<size_t>(dim)] = n;
  if (n == 0) return slice_dim(x, dim, 0, 0);
  const int64_t step = n > 1 ? indices[1] - indices[0] : 1;
  bool progression = step >= 1;
  for (int64_t i = 1; i < n && progression; ++i) progression = indices[i] - indices[i - 1] == step;
  if (progression) return slice_dim(x, dim, indices[0], indices[n - 1] + 1, step);
  // Each index repeated the same number of times, in order.
  if (size > 0 && n % size == 0) {
    const int64_t factor = n / size;
    bool repeated = true;
    for (int64_t i = 0; i < n && repeated; ++i) repeated = indices[i] == i / factor;
    if (repeated) {
      Dims wide = x.dims(), dimensions;
      wide.insert(wide.begin() + dim + 1, factor);
      for (int64_t i = 0; i < x.rank(); ++i) dimensions.push_back(i <= dim ? i : i + 1);
      return reshape(broadcast_in_dim(x, wide, dimensions), dims);
    }
  }
  return take(x, constant_vector(b, ElementType::kS32, indices), dim);
}

Resampling transposed(const Resampling& r) {
  Resampling t;
  t.input = static_cast<int64_t>(r.taps.size());
  t.taps.resize(static_cast<size_t>(r.input));
  for (size_t o = 0; o < r.taps.size(); ++o)
    for (auto [index, weight] : r.taps[o])
      t.taps[static_cast<size_t>(index)].push_back({static_cast<int64_t>(o), weight});
  return t;
}

Value resample(Value x, int64_t dim, const Resampling& r) {
  constexpr size_t kMaxUnrolled = 16;
  Builder& b = x.builder();
  const size_t outputs = r.taps.size();
  Dims dims = x.dims();
  dims[static_cast<size_t>(dim)] = static_cast<int64_t>(outputs);
  size_t longest = 0;
  bool weighted = false;
  for (const auto& list : r.taps) {
    longest = std::max(longest, list.size());
    for (auto [index, weight] : list) weighted |= weight != 1;
  }
  if (longest == 0 || x.numel() == 0 || outputs == 0) return constant(b, x.element(), 0, dims);

  // A table of [outputs, count] entries from tap `first` on.
  auto table = [&](size_t first, size_t count, auto&& entry) {
    using T = decltype(entry(r.taps[0][0], true));
    std::vector<T> values;
    for (const auto& list : r.taps)
      for (size_t t = first; t < first + count; ++t) {
        const bool present = t < list.size();
        // Absent taps repeat the last one, to stay in range and regular; they are masked.
        values.push_back(entry(present        ? list[t]
                               : list.empty() ? std::pair<int64_t, double>{0, 0}
                                              : list.back(),
                               present));
      }
    return values;
  };
  auto index_of = [](std::pair<int64_t, double> tap, bool) { return tap.first; };
  auto weight_of = [](std::pair<int64_t, double> tap, bool) { return tap.second; };
  auto present_of = [](std::pair<int64_t, double>, bool present) { return static_cast<int64_t>(present); };
  auto masked = [&](Value v, const std::vector<int64_t>& present, const Dims& table_dims, const Dims& dimensions) {
    if (std::find(present.begin(), present.end(), 0) == present.end()) return v;
    Value mask = reshape(constant_vector(b, ElementType::kPred, present), table_dims);
    return select(broadcast_in_dim(mask, v.dims(), dimensions), v, constant_like(v, 0));
  };

  if (longest > kMaxUnrolled) {
    const Dims table_dims{static_cast<int64_t>(outputs), static_cast<int64_t>(longest)};
    Value v = take(x, reshape(constant_vector(b, ElementType::kS32, table(0, longest, index_of)), table_dims), dim);
    if (weighted) {
      Value weights = reshape(constant_vector(b, x.element(), table(0, longest, weight_of)), table_dims);
      v = multiply(v, broadcast_in_dim(weights, v.dims(), {dim, dim + 1}));
    }
    return reduce_sum(masked(v, table(0, longest, present_of), table_dims, {dim, dim + 1}), {dim + 1});
  }
  Value sum;
  for (size_t t = 0; t < longest; ++t) {
    Value v = take_constant(x, dim, table(t, 1, index_of));
    if (weighted)
      v = multiply(v, broadcast_in_dim(constant_vector(b, x.element(), table(t, 1, weight_of)), dims, {dim}));
    v = masked(v, table(t, 1, present_of), {static_cast<int64_t>(outputs)}, {dim});
    sum = sum.defined() ? add(sum, v) : v;
  }
  return sum;
}

Value scatter_planes(Value updates, Value indices, int64_t planes, int64_t plane_size, const Combine& combine) {
  Builder& b = updates.builder();
  const ElementType t = updates.element();
  const int64_t total = planes * plane_size;
  if (total == 0 || updates.numel() == 0) return constant(b, t, 0, {planes, plane_size});
  const int64_t each = updates.numel() / planes;
  const ElementType index_type = total <= std::numeric_limits<int32_t>::max() ? ElementType::kS32 : ElementType::kS64;
  Value index = reshape(convert(indices, index_type), {planes, each});
  Value plane = iota(b, index_type, {planes, each}, 0);
  // Out of range stays out of the plane (and is skipped) instead of landing in its neighbour.
  Value inside =
      logical_and(greater_equal(index, constant_like(index, 0)), less(index, constant_like(index, plane_size)));
  Value flat = add(multiply(plane, constant_like(plane, plane_size)), index);
  flat = select(inside, flat, constant_like(flat, -1));
  ScatterDims dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = 1;
  Value sum = scatter(constant(b, t, 0, {total}), reshape(flat, {updates.numel(), 1}), flatten(updates), dims, combine);
  return reshape(sum, {planes, plane_size});
}

Value moves_on(Value best, Value value) {
  Value larger = greater(value, best);
  return is_floating(value.element()) ? logical_or(larger, is_nan(value)) : larger;
}

Best best_along(Best x, int64_t dim) {
  Builder& b = x.value.builder();
  const Value xs[2] = {x.value, x.index};
  const Value inits[2] = {lowest(b, x.value.element()), highest(b, x.index.element())};
  auto body = [](std::span<const Value> a) -> std::vector<Value> {
    Value v0 = a[0], i0 = a[1], v1 = a[2], i1 = a[3];
    // Associative and commutative, so that any order of reduction gives the same.
    Value second = logical_or(greater(v1, v0), logical_and(equal(v1, v0), less(i1, i0)));
    if (is_floating(v0.element()))
      second = logical_or(second, logical_and(is_nan(v1), logical_or(logical_not(is_nan(v0)), greater(i1, i0))));
    return {select(second, v1, v0), select(second, i1, i0)};
  };
  std::vector<Value> r = reduce_dim(xs, inits, dim, body);
  return {r[0], r[1]};
}

}  // namespace torch_tpu::lowering
