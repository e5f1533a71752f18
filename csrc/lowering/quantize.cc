// Fake quantization: values rounded to a grid that stay floating.
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

// All in f32 (or f64) and in the dims of x.
struct Grid {
  Value scale, zero_point, low, high;
};

// Grid index of x, as a whole number that may lie outside of [low, high].
Value grid_index(Value x, const Grid& g) {
  // ATen inverts the scale in f32 for inputs of any type.
  Value scale = convert(g.scale, kF32);
  Value inverse = convert(constant_like(scale, 1.0) / scale, x.element());
  Value index = round_nearest_even(x * inverse) + g.zero_point;
  // ATen's conversion to an integer takes NaN to the lowest.
  return select(is_nan(index), g.low - constant_like(g.low, 1.0), index);
}

// ATen multiplies by the scale in f32 for inputs of any type.
Value dequantize(Value index, const Grid& g) {
  Value steps = minimum(maximum(index, g.low), g.high) - g.zero_point;
  return convert(convert(steps, kF32) * convert(g.scale, kF32), index.element());
}

Value inside(Value index, const Grid& g) { return logical_and(greater_equal(index, g.low), less_equal(index, g.high)); }

ElementType compute_type(const Op& op) { return opmath_type(op.element("self")); }

// A number or a one-element tensor, spread over x.
Value spread(const Op& op, std::string_view arg, Value x) {
  Value v = op.is_tensor(arg) ? op.tensor(arg, x.element()) : op.scalar(arg, x.element());
  return like(x, reshape(v, {}));
}

// The scale, which is an f32 number for inputs of any type.
Value tensor_scale(const Op& op, Value x) { return convert(convert(spread(op, "scale", x), kF32), x.element()); }

Grid tensor_grid(const Op& op, Value x) {
  return {tensor_scale(op, x), spread(op, "zero_point", x), spread(op, "quant_min", x), spread(op, "quant_max", x)};
}

// One scale and zero point for each index of dim `axis`.
Grid channel_grid(const Op& op, Value x) {
  const int64_t axis = wrap_dim(op.integer("axis"), x.rank());
  auto channel = [&](std::string_view arg) { return broadcast_in_dim(op.tensor(arg, x.element()), x.dims(), {axis}); };
  return {channel("scale"), channel("zero_point"), spread(op, "quant_min", x), spread(op, "quant_max", x)};
}

using MakeGrid = Grid (*)(const Op&, Value);

template <MakeGrid make_grid>
Results cachemask(Op& op) {
  Value x = op.tensor("self", compute_type(op));
  const Grid g = make_grid(op, x);
  Value index = grid_index(x, g);
  // The per-channel kernel goes through int64, where overflow is the lowest number as well.
  if (make_grid == channel_grid)
    index = select(greater_equal(index, constant_like(index, 9223372036854775808.0)), g.low - constant_like(index, 1.0),
                   index);
  return {convert(dequantize(index, g), op.element("self")), inside(index, g)};
}

// fake_quant_enabled decides at run time; off, x passes and its gradient too.
Results cachemask_switched(Op& op) {
  Value x = op.tensor("self", compute_type(op));
  const Grid g = tensor_grid(op, x);
  Value index = grid_index(x, g);
  Value on = like(x, reshape(op.tensor("fake_quant_enabled", kPred), {}));
  return {convert(select(on, dequantize(index, g), x), op.element("self")),
          logical_or(logical_not(on), inside(index, g))};
}

// Learnable zero points are floats, rounded and clamped into the grid first. ATen rounds in three ways.
enum class ZeroPoint { kNearest, kTruncated, kFloored };

template <ZeroPoint rounding>
Grid learnable(Grid g) {
  Value z = rounding == ZeroPoint::kNearest ? round_nearest_even(g.zero_point)
                                            : g.zero_point + constant_like(g.zero_point, 0.5);
  z = minimum(maximum(z, g.low), g.high);
  if (rounding == ZeroPoint::kTruncated) z = select(less(z, constant_like(z, 0.0)), ceil(z), floor(z));
  if (rounding == ZeroPoint::kFloored) z = floor(z);
  return {g.scale, z, g.low, g.high};
}

template <MakeGrid make_grid, ZeroPoint rounding>
Value learnable_forward(Op& op) {
  Value x = op.tensor("self", compute_type(op));
  const Grid g = learnable<rounding>(make_grid(op, x));
  return convert(dequantize(grid_index(x, g), g), op.element("self"));
}

// (grad of self, of scale, of zero_point); the last two summed over what shares them.
template <MakeGrid make_grid, bool kChannels>
Results learnable_backward(Op& op) {
  Value x = op.tensor("self", compute_type(op)), grad = op.tensor("grad", compute_type(op));
  const Grid g = learnable<kChannels ? ZeroPoint::kFloored : ZeroPoint::kTruncated>(make_grid(op, x));
  // Ties are broken after the zero point is added, unlike in the forward.
  Value index = round_nearest_even(x * (constant_like(x, 1.0) / g.scale) + g.zero_point);
  Value within = inside(index, g), zero = constant_like(x, 0.0);
  Value clipped = minimum(maximum(index, g.low), g.high);
  Value factor = spread(op, "grad_factor", x);
  // d out / d scale: the rounding error inside, the distance of the bound from the zero point outside.
  Value quantized = (clipped - g.zero_point) * g.scale;
  Value scale_slope = select(within, (quantized - x) / g.scale, clipped - g.zero_point);
  Value grad_scale = grad * scale_slope * factor;
  Value grad_zero = select(within, zero, negate(g.scale)) * grad * factor;
  Dims shared = all_dims(x.rank());
  if (kChannels) shared.erase(shared.begin() + wrap_dim(op.integer("axis"), x.rank()));
  auto summed = [&](Value v, std::string_view arg) {
    return convert(reshape(reduce_sum(v, shared), op.dims(arg)), op.element(arg));
  };
  return {convert(select(within, grad, zero), op.element("self")), summed(grad_scale, "scale"),
          summed(grad_zero, "zero_point")};
}

}  // namespace

void register_quantize(Registry& r) {
  register_observer(r);
  r.add("fake_quantize_per_tensor_affine_cachemask", cachemask<tensor_grid>)
      .runtime({"zero_point", "quant_min", "quant_max"})
      .like("self");
  r.add("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", cachemask_switched)
      .runtime({"quant_min", "quant_max"})
      .like("self");
  r.add("fake_quantize_per_channel_affine_cachemask", cachemask<channel_grid>)
      .runtime({"quant_min", "quant_max"})
      .like("self");
  r.add("_fake_quantize_learnable_per_tensor_affine", learnable_forward<tensor_grid, ZeroPoint::kNearest>)
      .runtime({"quant_min", "quant_max"})
      .like("self");
  r.add("_fake_quantize_learnable_per_channel_affine", learnable_forward<channel_grid, ZeroPoint::kFloored>)
      .runtime({"quant_min", "quant_max"})
      .like("self");
  r.add("_fake_quantize_learnable_per_tensor_affine_backward", learnable_backward<tensor_grid, false>)
      .runtime({"quant_min", "quant_max"})
      .like("self");
  r.add("_fake_quantize_learnable_per_channel_affine_backward", learnable_backward<channel_grid, true>)
      .runtime({"quant_min", "quant_max"})
      .like("self");
}

}  // namespace torch_tpu::lowering
