// Input errors that PyTorch's meta kernels do not raise, or raise in other words than the CPU's kernels. On misses
// only: a call that was refused is not cached.
#include "aten/input_checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "aten/bridge.h"

namespace torch_tpu::aten {
namespace {

const at::Tensor* tensor_named(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments,
                               const char* name) {
  const auto index = schema.argumentIndexWithName(name);
  if (!index || static_cast<size_t>(*index) >= arguments.size()) return nullptr;
  const c10::IValue& v = arguments[static_cast<size_t>(*index)];
  return v.isTensor() && v.toTensor().defined() ? &v.toTensor() : nullptr;
}

// Products take operands of one dtype.
void check_product(const std::string& name, const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments) {
  const at::Tensor *first = nullptr, *second = nullptr;
  for (const auto& [a, b] : {std::pair{"mat1", "mat2"},
                             {"batch1", "batch2"},
                             {"mat", "vec"},
                             {"self", "mat2"},
                             {"self", "vec"},
                             {"self", "tensor"},
                             {"self", "other"}}) {
    first = tensor_named(schema, arguments, a);
    second = tensor_named(schema, arguments, b);
    if (first && second) break;
  }
  if (!first || !second || first->scalar_type() == second->scalar_type()) return;
  if (name == "dot" || name == "vdot")
    TORCH_CHECK(false, "dot : expected both vectors to have same dtype, but found ", first->scalar_type(), " and ",
                second->scalar_type());
  TORCH_CHECK(false, "expected m1 and m2 to have the same dtype, but got: ", first->dtype(), " != ", second->dtype());
}

at::Tensor to_cpu_zeros(const at::Tensor& t) {
  const size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  return at::zeros({static_cast<int64_t>(bytes / t.itemsize())}, t.options().device(at::kCPU).requires_grad(false))
      .as_strided(t.sizes(), t.strides());
}

c10::IValue to_cpu_zeros(const c10::IValue& v) {
  if (v.isTensor() && is_device_tensor(v.toTensor())) return to_cpu_zeros(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(is_device_tensor(t) ? to_cpu_zeros(t) : t);
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
      list.push_back(t && is_device_tensor(*t) ? std::optional<at::Tensor>(to_cpu_zeros(*t)) : t);
    return list;
  }
  if (v.isDevice()) return c10::Device(c10::DeviceType::CPU);
  if (v.isGenerator()) return c10::IValue();
  return v;
}

// Bytes of all tensors; -1 where there is none.
int64_t total_bytes(at::ArrayRef<c10::IValue> arguments) {
  int64_t bytes = -1;
  const auto add = [&](const at::Tensor& t) {
    if (!is_device_tensor(t)) return;
    bytes = std::max<int64_t>(bytes, 0) +
            static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
  };
  for (const c10::IValue& v : arguments) {
    if (v.isTensor()) add(v.toTensor());
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) add(t);
    if (v.isOptionalTensorList())
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
        if (t) add(*t);
  }
  return bytes;
}

}  // namespace

void check_inputs(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  static const auto* const products = new std::set<std::string>{
      "mm", "bmm", "addmm", "addmm_", "baddbmm", "baddbmm_", "mv", "addmv", "addmv_", "dot", "vdot"};
  static const auto* const orderings = new std::set<std::string>{"max",  "min",      "argmax", "argmin", "sort",
                                                                 "topk", "kthvalue", "median", "cummax", "cummin"};
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = schema.name().substr(schema.name().find("::") + 2);
  if (products->count(name)) return check_product(name, schema, arguments);
  if (orderings->count(name)) {
    const at::Tensor* self = tensor_named(schema, arguments, "self");
    TORCH_CHECK_NOT_IMPLEMENTED(!self || !self->is_complex(), name, " is not implemented for complex tensors");
  } else if (name == "index_put" || name == "index_put_" || name == "_index_put_impl_") {
    const at::Tensor *self = tensor_named(schema, arguments, "self"),
                     *values = tensor_named(schema, arguments, "values");
    TORCH_CHECK(!self || !values || self->scalar_type() == values->scalar_type(),
                "Index put requires the source and destination dtypes match, got ", self->scalar_type(),
                " for the destination and ", values->scalar_type(), " for the source.");
  } else if (name == "nll_loss_forward" || name == "nll_loss2d_forward") {
    const at::Tensor* target = tensor_named(schema, arguments, "target");
    TORCH_CHECK(!target || target->scalar_type() == at::kLong || target->scalar_type() == at::kByte,
                "expected target dtype to be Long or Byte, but got ", target->scalar_type());
  }
}

void raise_as_on_cpu(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  constexpr int64_t kMost = int64_t{64} << 20;
  const int64_t bytes = total_bytes(arguments);
  if (bytes < 0 || bytes > kMost) return;
  torch::jit::Stack stack;
  for (const c10::IValue& v : arguments) stack.push_back(to_cpu_zeros(v));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.callBoxed(&stack);
}

}  // namespace torch_tpu::aten
