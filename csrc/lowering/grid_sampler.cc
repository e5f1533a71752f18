// Sampling an image at the points of a grid, in 2-D and 3-D. A sample is a sum over the product of a few taps in each
// dimension; gradients use the same taps.
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

enum Interpolation : int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

struct Tap {
  Value index;   // s32, clamped into the image
  Value inside;  // whether it was inside
  Value weight, slope;
};

struct Axis {
  std::vector<Tap> taps;
  Value factor;  // d coordinate / d grid
};

Value scalar_like(Value x, double v) { return constant_like(x, v); }

// ATen's reflection between two half-integer or integer bounds, given doubled. `sign` becomes the derivative.
Value reflect(Value x, int64_t twice_low, int64_t twice_high, Value* sign) {
  if (twice_low == twice_high) {
    if (sign) *sign = scalar_like(x, 0);
    return scalar_like(x, 0);
  }
  const double low = static_cast<double>(twice_low) / 2, span = static_cast<double>(twice_high - twice_low) / 2;
  Value from_low = subtract(x, scalar_like(x, low));
  Value negative = less(from_low, scalar_like(x, 0));
  Value distance = abs(from_low), span_value = scalar_like(x, span);
  Value extra = remainder(distance, span_value);
  Value flips = floor(divide(distance, span_value));
  Value even = equal(remainder(flips, scalar_like(x, 2)), scalar_like(x, 0));
  if (sign) {
    Value up = logical_xor(negative, even);  // an even number of flips keeps the direction
    *sign = select(up, scalar_like(x, 1), scalar_like(x, -1));
  }
  Value forward = add(extra, scalar_like(x, low));
  return select(even, forward, add(subtract(span_value, extra), scalar_like(x, low)));
}

// Into [0, size - 1]; NaN becomes 0.
Value clip(Value x, int64_t size, Value* derivative) {
  Value low = scalar_like(x, 0), high = constant_like(x, size - 1);
  if (derivative) {
    Value free = logical_and(greater(x, low), less(x, high));
    *derivative = select(free, scalar_like(x, 1), low);
  }
  return select(is_nan(x), low, clamp(low, x, high));
}

Value pad_coordinate(Value x, int64_t size, int64_t padding, bool align, Value* derivative) {
  if (padding == kZeros) return x;
  Value sign, free;
  if (padding == kReflection)
    x = align ? reflect(x, 0, 2 * (size - 1), derivative ? &sign : nullptr)
              : reflect(x, -1, 2 * size - 1, derivative ? &sign : nullptr);
  x = clip(x, size, derivative ? &free : nullptr);
  if (derivative) *derivative = sign.defined() ? multiply(sign, free) : free;
  return x;
}

// A tap at the integral coordinate `at`.
Tap make_tap(Value at, int64_t size, Value weight, Value slope) {
  Value inside = logical_and(greater_equal(at, scalar_like(at, 0)), less_equal(at, constant_like(at, size - 1)));
  return {convert(clip(at, size, nullptr), ElementType::kS32), inside, weight, slope};
}

Value polynomial(Value x, std::initializer_list<double> coefficients) {  // highest power first
  Value sum;
  for (double c : coefficients) sum = sum.defined() ? add(multiply(sum, x), scalar_like(x, c)) : scalar_like(x, c);
  return sum;
}

Axis make_axis(Value grid, int64_t size, int64_t interpolation, int64_t padding, bool align) {
  Axis axis;
  const double extent = static_cast<double>(align ? size - 1 : size);
  Value x =
      align
          ? multiply(divide(add(grid, scalar_like(grid, 1)), scalar_like(grid, 2)), scalar_like(grid, extent))
          : divide(subtract(multiply(add(grid, scalar_like(grid, 1)), scalar_like(grid, extent)), scalar_like(grid, 1)),
                   scalar_like(grid, 2));
  axis.factor = scalar_like(grid, extent / 2);
  Value zero = scalar_like(x, 0), one = scalar_like(x, 1);
  if (interpolation == kCubic) {
    Value base = floor(x), t = subtract(x, base);
    constexpr double a = -0.75;
    auto near = [&](Value d) { return polynomial(d, {a + 2, -(a + 3), 0, 1}); };
    auto far = [&](Value d) { return polynomial(d, {a, -5 * a, 8 * a, -4 * a}); };
    auto near_slope = [&](Value d) { return polynomial(d, {3 * (a + 2), -2 * (a + 3), 0}); };
    auto far_slope = [&](Value d) { return polynomial(d, {3 * a, -10 * a, 8 * a}); };
    const Value distance[4] = {add(t, one), t, subtract(one, t), subtract(scalar_like(x, 2), t)};
    for (int i = 0; i < 4; ++i) {
      const bool outer = i == 0 || i == 3;
      Value weight = outer ? far(distance[i]) : near(distance[i]);
      Value slope = outer ? far_slope(distance[i]) : near_slope(distance[i]);
      // Distances of the right-hand taps shrink as x grows.
      Value at = pad_coordinate(add(base, scalar_like(x, i - 1)), size, padding, align, nullptr);
      axis.taps.push_back(make_tap(at, size, weight, i < 2 ? slope : negate(slope)));
    }
    return axis;
  }
  Value derivative;
  x = pad_coordinate(x, size, padding, align, &derivative);
  if (derivative.defined()) axis.factor = multiply(axis.factor, derivative);
  if (interpolation == kNearest) {
    axis.taps.push_back(make_tap(round_nearest_even(x), size, one, zero));
    return axis;
  }
  Value base = floor(x), t = subtract(x, base);
  axis.taps.push_back(make_tap(base, size, subtract(one, t), negate(one)));
  axis.taps.push_back(make_tap(add(base, one), size, t, one));
  return axis;
}

// Everything flat: image [n, pixels, c], points [n, m].
struct Sampler {
  Op& op;
  ElementType compute;
  int64_t n, c, spatial, pixels = 1, points = 1;
  Dims image, grid_dims;
  std::vector<Axis> axes;

  explicit Sampler(Op& o) : op(o), compute(opmath_type(o.element("input"))) {
    const Dims& dims = op.dims("input");
    grid_dims = op.dims("grid");
    n = dims[0];
    c = dims[1];
    spatial = static_cast<int64_t>(dims.size()) - 2;
    image = Dims(dims.begin() + 2, dims.end());
    for (int64_t d : image) pixels *= d;
    for (int64_t i = 1; i <= spatial; ++i) points *= grid_dims[static_cast<size_t>(i)];
    Value grid = reshape(op.tensor("grid", compute), {n, points, spatial});
    for (int64_t i = 0; i < spatial; ++i) {
      // Grid coordinates are ordered (x, y, z), image dims (z, y, x).
      const int64_t at = spatial - 1 - i;
      axes.push_back(make_axis(reshape(slice_dim(grid, 2, at, at + 1), {n, points}), image[static_cast<size_t>(i)],
                               op.integer("interpolation_mode"), op.integer("padding_mode"),
                               op.boolean("align_corners")));
    }
  }

  bool is_empty() const { return n * c * pixels * points == 0; }

  // [n, c, ...] -> [n, ..., c] with the middle flat.
  static Value channels_last(Value x) {
    x = reshape(x, {x.dim(0), x.dim(1), x.numel() / (x.dim(0) * x.dim(1))});
    return stablehlo::transpose(x, {0, 2, 1});
  }

  // Calls f(flat index, inside, weight, per-axis choice) for each combination of taps.
  template <typename F>
  void for_each_tap(F&& f) const {
    std::vector<size_t> at(axes.size(), 0);
    while (true) {
      Value index, inside, weight;
      for (size_t i = 0; i < axes.size(); ++i) {
        const Tap& tap = axes[i].taps[at[i]];
        index = index.defined() ? add(multiply(index, constant_like(index, image[i])), tap.index) : tap.index;
        inside = inside.defined() ? logical_and(inside, tap.inside) : tap.inside;
        weight = weight.defined() ? multiply(weight, tap.weight) : tap.weight;
      }
      f(index, inside, weight, at);
      size_t i = axes.size();
      while (i > 0 && ++at[i - 1] == axes[i - 1].taps.size()) at[--i] = 0;
      if (i == 0) return;
    }
  }

  // [n, m, c] at the flat indices [n, m].
  Value gather_at(Value image_last, Value index) const {
    GatherDims g;
    g.offset_dims = {2};
    g.collapsed_slice_dims = {1};
    g.operand_batching_dims = {0};
    g.start_indices_batching_dims = {0};
    g.start_index_map = {1};
    g.index_vector_dim = 2;
    return gather(image_last, index, g, {1, 1, c});
  }

  // Calls f(pixels, weight, per-axis choice) for each combination of taps; pixels outside of the image are zero.
  template <typename F>
  void for_each_pixel(Value image_last, F&& f) const {
    // libtpu takes seconds to compile each gather of a large image: there one reads for all taps.
    Value all;
    if (op.target().is_tpu()) {
      std::vector<Value> indices;
      for_each_tap([&](Value index, Value, Value, const std::vector<size_t>&) { indices.push_back(index); });
      all = gather_at(image_last, indices.size() == 1 ? indices[0] : concatenate(indices, 1));
    }
    int64_t tap = 0;
    for_each_tap([&](Value index, Value inside, Value weight, const std::vector<size_t>& at) {
      Value v = all.defined() ? slice_dim(all, 1, tap * points, (tap + 1) * points) : gather_at(image_last, index);
      ++tap;
      f(select(over_channels(inside), v, constant_like(v, 0)), weight, at);
    });
  }

  Value over_channels(Value x) const { return broadcast_in_dim(x, {n, points, c}, {0, 1}); }
};

Value grid_sampler(Op& op) {
  const Sampler s(op);
  Dims result{s.n, s.c};
  for (int64_t i = 1; i <= s.spatial; ++i) result.push_back(s.grid_dims[static_cast<size_t>(i)]);
  if (s.is_empty()) return constant(op.builder(), op.element("input"), 0, result);
  Value image = Sampler::channels_last(op.tensor("input", s.compute));
  Value sum;
  s.for_each_pixel(image, [&](Value pixels, Value weight, const std::vector<size_t>&) {
    Value term = multiply(pixels, s.over_channels(weight));
    sum = sum.defined() ? add(sum, term) : term;
  });
  return convert(reshape(stablehlo::transpose(sum, {0, 2, 1}), result), op.element("input"));
}

Results grid_sampler_backward(Op& op) {
  Builder& b = op.builder();
  const Sampler s(op);
  const std::vector<bool>& mask = op.booleans("output_mask");
  const ElementType t = op.element("input"), grid_type = op.element("grid");
  Results r(2);
  if (s.is_empty()) {
    if (mask[0]) r[0] = constant(b, t, 0, op.dims("input"));
    if (mask[1]) r[1] = constant(b, grid_type, 0, s.grid_dims);
    return r;
  }
  Value grad = Sampler::channels_last(op.tensor("grad_output", s.compute));  // [n, points, c]
  if (mask[0]) {
    std::vector<Value> indices, updates;
    s.for_each_tap([&](Value index, Value inside, Value weight, const std::vector<size_t>&) {
      Value update = multiply(grad, s.over_channels(weight));
      updates.push_back(select(s.over_channels(inside), update, constant_like(update, 0)));
      indices.push_back(reshape(index, {s.n, s.points, 1}));
    });
    Value index = concatenate(indices, 1);
    const Value pair[2] = {iota(b, ElementType::kS32, index.dims(), 0), index};
    ScatterDims d;
    d.update_window_dims = {2};
    d.inserted_window_dims = {0, 1};
    d.scatter_dims_to_operand_dims = {0, 1};
    d.index_vector_dim = 2;
    Value sum = scatter(constant(b, s.compute, 0, {s.n, s.pixels, s.c}), concatenate(pair, 2), concatenate(updates, 1),
                        d, stablehlo::add);
    r[0] = convert(reshape(stablehlo::transpose(sum, {0, 2, 1}), op.dims("input")), t);
  }
  if (mask[1]) {
    Value image = Sampler::channels_last(op.tensor("input", s.compute));
    std::vector<Value> slopes(s.axes.size());
    s.for_each_pixel(image, [&](Value pixels, Value, const std::vector<size_t>& at) {
      Value products = reduce_sum(multiply(pixels, grad), {2});
      for (size_t i = 0; i < s.axes.size(); ++i) {
        Value term = products;
        for (size_t j = 0; j < s.axes.size(); ++j) {
          const Tap& tap = s.axes[j].taps[at[j]];
          term = multiply(term, i == j ? tap.slope : tap.weight);
        }
        slopes[i] = slopes[i].defined() ? add(slopes[i], term) : term;
      }
    });
    std::vector<Value> parts;
    for (size_t i = s.axes.size(); i-- > 0;)
      parts.push_back(reshape(multiply(slopes[i], s.axes[i].factor), {s.n, s.points, 1}));
    r[1] = convert(reshape(concatenate(parts, 2), s.grid_dims), grid_type);
  }
  return r;
}

}  // namespace

void register_grid_sampler(Registry& r) {
  r.add("grid_sampler_2d", grid_sampler);
  r.add("grid_sampler_3d", grid_sampler);
  r.add("grid_sampler_2d_backward", grid_sampler_backward);
  r.add("grid_sampler_3d_backward", grid_sampler_backward);
}

}  // namespace torch_tpu::lowering
