// The observer and fake quantizer of quantization-aware training in one step: running extremes, the grid that they
// give, and the input rounded to that grid. Both switches are tensors, and are obeyed on the device.
#include <limits>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

struct Grid {
  Value scale, zero_point;  // f64, of the dims of the extremes
};

Value absolute(double x, Value like) { return constant_like(like, x < 0 ? -x : x); }

// ATen's ChooseQuantizationParams.
Grid choose_grid(Value low, Value high, int64_t quant_min, int64_t quant_max, bool symmetric) {
  const auto bottom = static_cast<double>(quant_min), top = static_cast<double>(quant_max);
  Value both_signs = logical_and(less(low, 0), greater(high, 0));
  if (symmetric) {
    const auto half = static_cast<double>((quant_max - quant_min) / 2);
    Value widest = maximum(abs(low / -(half + 1)), abs(high / half));
    low = stablehlo::select(both_signs, widest * -(half + 1), low);
    high = stablehlo::select(both_signs, widest * half, high);
  }
  low = minimum(low, constant_like(low, 0));
  high = maximum(high, constant_like(high, 0));
  Value scale = (high - low) / (top - bottom);
  Value narrow = convert(scale, kF32);
  scale = select(logical_or(equal(narrow, 0), is_inf(1.0 / narrow)), 0.1, scale);
  constexpr double kSmallestScale = 6.1e-5;
  Value small = less(scale, kSmallestScale);
  Value grown = constant_like(scale, kSmallestScale) / convert(convert(scale, kF32), kF64);
  Value only_high = equal(low, 0), only_low = equal(high, 0);
  Value new_low = stablehlo::select(only_high, low, select(only_low, -kSmallestScale * (top - bottom), low * grown));
  Value new_high = select(only_high, kSmallestScale * (top - bottom), stablehlo::select(only_low, high, high * grown));
  low = stablehlo::select(small, new_low, low);
  high = stablehlo::select(small, new_high, high);
  scale = select(small, kSmallestScale, scale);
  Value from_low = bottom - low / scale, from_high = top - high / scale;
  Value low_error = absolute(bottom, low) - abs(low / scale), high_error = absolute(top, high) - abs(high / scale);
  Value zero_point = stablehlo::select(less(low_error, high_error), from_low, from_high);
  if (symmetric) zero_point = select(both_signs, (bottom + top) / 2, zero_point);
  Value nearest = round_nearest_even(zero_point);
  nearest = select(less(zero_point, bottom), bottom, nearest);
  return {scale, select(greater(zero_point, top), top, nearest)};
}

Results fused_moving_average_observer(Op& op) {
  const ElementType t = op.element("self");
  Value x = op.tensor("self", kF32);
  const bool rows = op.boolean("per_row_fake_quant");
  const int64_t axis = rows ? wrap_dim(op.integer("ch_axis"), x.rank()) : 0;
  const int64_t quant_min = op.integer("quant_min"), quant_max = op.integer("quant_max");
  Dims reduced = all_dims(x.rank());
  if (rows) reduced.erase(reduced.begin() + axis);
  const Dims extremes = rows ? Dims{x.dim(static_cast<int>(axis))} : Dims{};

  const auto per_extreme = [&](std::string_view arg, ElementType as) {
    const Dims& dims = op.dims(arg);
    const int64_t n = TensorType{as, dims}.numel();
    // A state that was never filled has no elements, or one for all rows.
    const int64_t wanted = TensorType{as, extremes}.numel();
    if (n == wanted) return reshape(op.tensor(arg, as), extremes);
    if (n == 1) return broadcast_to(reshape(op.tensor(arg, as), {}), extremes);
    return constant(op.builder(), as, std::numeric_limits<double>::infinity(), extremes);
  };
  Value observe = broadcast_to(reshape(op.tensor("observer_on", kPred), {}), extremes);
  Value weight = broadcast_to(op.scalar("averaging_const", kF32), extremes);
  const auto moved = [&](std::string_view arg, Value seen) {
    Value running = per_extreme(arg, kF32);
    Value next = stablehlo::select(is_inf(running), seen, running + weight * (seen - running));
    return stablehlo::select(observe, next, running);
  };
  Value low = moved("running_min", reduce_min(x, reduced)), high = moved("running_max", reduce_max(x, reduced));
  Grid grid = choose_grid(convert(low, kF64), convert(high, kF64), quant_min, quant_max, op.boolean("symmetric_quant"));
  // Only what is quantized needs a new grid.
  Value quantize = reshape(op.tensor("fake_quant_on", kPred), {});
  Value on = broadcast_to(quantize, extremes);
  Value scale = stablehlo::select(on, convert(grid.scale, kF32), per_extreme("scale", kF32));
  Value zero_point = stablehlo::select(on, convert(grid.zero_point, kF32), per_extreme("zero_point", kF32));
  const std::pair<const char*, Value> state[] = {
      {"running_min", low}, {"running_max", high}, {"scale", scale}, {"zero_point", zero_point}};
  for (const auto& [arg, value] : state)
    if (op.dims(arg) == extremes || TensorType{t, op.dims(arg)}.numel() == value.numel())
      op.write(arg, reshape(value, op.dims(arg)));

  const auto spread = [&](Value v) { return broadcast_in_dim(v, x.dims(), rows ? Dims{axis} : Dims{}); };
  Value s = spread(scale), z = spread(zero_point);
  Value index = round_nearest_even(x * (1.0 / s)) + z;
  Value bottom = constant_like(index, quant_min), top = constant_like(index, quant_max);
  Value rounded = (minimum(maximum(index, bottom), top) - z) * s;
  Value inside = logical_and(greater_equal(index, bottom), less_equal(index, top));
  return {convert(stablehlo::select(quantize, rounded, x), t),
          logical_or(logical_not(broadcast_to(quantize, x.dims())), inside)};
}

}  // namespace

void register_observer(Registry& r) {
  r.add("_fused_moving_avg_obs_fq_helper", fused_moving_average_observer)
      .mutates({"running_min", "running_max", "scale", "zero_point"});
}

}  // namespace torch_tpu::lowering
