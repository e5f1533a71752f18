// Shapes, dtypes, strides and input errors from PyTorch's own meta kernels. Runs on cache misses only.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/input_checks.h"
#include "aten/op_entry.h"

namespace torch_tpu::aten {
namespace {

at::Tensor to_meta(const at::Tensor& t) {
  if (!t.defined() || t.device().is_meta()) return t;
  // Numbers in the place of tensors stay what they are: their value takes part in type promotion only.
  if (t.device().is_cpu() && t.dim() == 0) return t;
  at::Tensor meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta).requires_grad(false));
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

c10::IValue to_meta(const c10::IValue& v) {
  if (v.isTensor()) return to_meta(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(to_meta(t));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
      list.push_back(t ? std::optional<at::Tensor>(to_meta(*t)) : std::nullopt);
    return list;
  }
  if (v.isDevice()) return c10::Device(c10::DeviceType::Meta);
  if (v.isGenerator()) return c10::IValue();
  return v;
}

MetaResult result_of(const at::Tensor& t) {
  MetaResult r;
  r.known = true;
  r.defined = t.defined();
  if (t.defined()) {
    r.dtype = t.scalar_type();
    r.sizes = t.sizes().vec();
    r.strides = t.strides().vec();
  }
  return r;
}

}  // namespace

std::vector<MetaResult> infer_results(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return {};
  torch::jit::Stack stack;
  for (const c10::IValue& v : arguments) stack.push_back(to_meta(v));
  check_inputs(op, arguments);
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    try {
      op.callBoxed(&stack);
    } catch (const c10::NotImplementedError&) {
      return {};
    } catch (const std::exception&) {
      raise_as_on_cpu(op, arguments);
      throw;
    }
  }
  std::vector<MetaResult> results;
  for (const c10::IValue& v : stack) {
    if (v.isTensor()) {
      results.push_back(result_of(v.toTensor()));
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) results.push_back(result_of(t));
    } else if (v.isNone()) {
      results.push_back(MetaResult{true, false, {}, {}, {}});
    } else {
      results.push_back(MetaResult{});
    }
  }
  return results;
}

}  // namespace torch_tpu::aten
