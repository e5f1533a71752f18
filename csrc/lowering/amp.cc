// What torch.amp.GradScaler runs on the device.
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

Results non_finite_check_and_unscale(Op& op) {
  const TensorType& found_type = op.type("found_inf");
  Value found = constant(op.builder(), kPred, false);
  Value inverse = reshape(op.tensor("inv_scale", kF32), {});
  const std::vector<Value> grads = op.tensors("self");
  for (size_t i = 0; i < grads.size(); ++i) {
    Value wide = convert(grads[i], opmath_type(grads[i].element()));
    found = logical_or(found, reduce_or(logical_not(is_finite(wide)), all_dims(wide.rank())));
    // A scale of 1 leaves the bits alone; other scales multiply infinities and NaNs to themselves as well.
    op.write("self", i, convert(wide * like(wide, convert(inverse, wide.element())), grads[i].element()));
  }
  Value old = op.tensor("found_inf");
  op.write("found_inf", select(found, constant(op.builder(), found_type.element, 1.0, found_type.dims), old));
  return {};
}

Value update_scale(Op& op) {
  Value scale = op.tensor("self"), tracker = op.tensor("growth_tracker");
  Value found = reshape(op.tensor("found_inf", kPred), {});
  Value wide = convert(scale, kF64);
  Value shrunk = convert(wide * like(wide, op.scalar("scale_backoff_factor", kF64)), scale.element());
  Value grown = convert(wide * like(wide, op.scalar("scale_growth_factor", kF64)), scale.element());
  grown = select(is_finite(grown), grown, scale);
  Value next = tracker + constant_like(tracker, 1);
  Value due = equal(next, like(next, op.scalar("growth_interval", tracker.element())));
  Value zero = constant_like(tracker, 0);
  op.write("growth_tracker", select(logical_or(like(next, found), due), zero, next));
  return select(found, shrunk, select(reshape(due, scale.dims()), grown, scale));
}

}  // namespace

void register_amp(Registry& r) {
  r.add("_amp_foreach_non_finite_check_and_unscale_", non_finite_check_and_unscale).mutates({"self", "found_inf"});
  r.add("_amp_update_scale_", update_scale).runtime({"growth_interval"}).mutates({"growth_tracker"});
}

}  // namespace torch_tpu::lowering
