// Copies and casts. The bridge calls "tpu.copy" for every copy_ between tensors of one device.
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

Value copy(Op& op) { return broadcast_to(op.tensor("src", op.element("self")), op.dims("self")); }

Value cast(Op& op) { return op.tensor("self", op.dtype("dtype").value_or(op.element("self"))); }

}  // namespace

void register_copy(Registry& r) {
  r.add_internal("tpu.copy", copy);
  r.add_internal("tpu.cast", cast).like("self");
}

}  // namespace torch_tpu::lowering
