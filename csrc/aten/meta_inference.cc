// Shapes, dtypes, strides and input errors from PyTorch's own meta kernels. Runs on cache misses only.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "aten/input_checks.h"
#include "aten/op_entry.h"

namespace torch_tpu::aten {
namespace {

bool is_host_number(const at::Tensor& t) { return t.defined() && t.device().is_cpu() && t.dim() == 0; }

// Numbers in the place of tensors stay what they are, for meta kernels that read them, unless `all` are moved.
at::Tensor to_meta(const at::Tensor& t, bool all) {
  if (!t.defined() || t.device().is_meta() || (!all && is_host_number(t))) return t;
  at::Tensor meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta).requires_grad(false));
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

c10::IValue to_meta(const c10::IValue& v, bool all) {
  if (v.isTensor()) return to_meta(v.toTensor(), all);
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(to_meta(t, all));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
      list.push_back(t ? std::optional<at::Tensor>(to_meta(*t, all)) : std::nullopt);
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

// Strides of one transform over `dims`: the other dims outermost, in the order of the input's strides.
std::vector<int64_t> transform_strides(at::IntArrayRef input_strides, at::IntArrayRef sizes, at::IntArrayRef dims) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return input_strides[static_cast<size_t>(a)] > input_strides[static_cast<size_t>(b)];
  });
  order.insert(order.end(), dims.begin(), dims.end());
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = next;
    next *= sizes[static_cast<size_t>(order[i])];
  }
  return strides;
}

// The meta kernels of Fourier transforms give CUDA's strides for every device but the CPU.
void set_cpu_fft_strides(const std::string& name, at::ArrayRef<c10::IValue> arguments, MetaResult& result) {
  const at::Tensor self = arguments[0].toTensor();
  std::vector<int64_t> dims = arguments[1].toIntVector(), strides = self.strides().vec();
  if (dims.empty() || self.numel() == 0) return;
  for (int64_t& d : dims) d = at::maybe_wrap_dim(d, self.dim());
  const auto by_stride = [&](int64_t a, int64_t b) {
    return self.strides()[static_cast<size_t>(a)] > self.strides()[static_cast<size_t>(b)];
  };
  if (name == "aten::_fft_c2r") {
    const int64_t last = dims.back();
    dims.pop_back();
    std::stable_sort(dims.begin(), dims.end(), by_stride);
    if (!dims.empty()) strides = transform_strides(strides, self.sizes(), dims);
    dims = {last};
  } else {
    std::stable_sort(dims.begin(), name == "aten::_fft_r2c" ? dims.end() - 1 : dims.end(), by_stride);
  }
  result.strides = transform_strides(strides, result.sizes, dims);
}

}  // namespace

std::vector<MetaResult> infer_results(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return {};
  check_inputs(op, arguments);
  torch::jit::Stack stack;
  const auto call = [&](bool all) {
    stack.clear();
    for (const c10::IValue& v : arguments) stack.push_back(to_meta(v, all));
    op.callBoxed(&stack);
  };
  const bool has_number = std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& v) {
    return v.isTensor() && is_host_number(v.toTensor());
  });
  {
    // Below autograd, but with tensors that may be looked at there: Python's meta kernels print them at times, which
    // asks for the tangent wherever forward-mode differentiation is on.
    const c10::InferenceMode inference;
    try {
      try {
        call(false);
      } catch (const std::exception&) {
        if (!has_number) throw;
        call(true);  // PyTorch's reference implementations want one device
      }
    } catch (const c10::NotImplementedError&) {
      return {};
    } catch (const std::exception&) {
      // What the CPU does not have is CUDA's: nobody runs such meta kernels with all that the schema allows.
      if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return {};
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
  const std::string& name = op.schema().name();
  if (name.starts_with("aten::_fft_") && op.schema().overload_name().empty())
    set_cpu_fft_strides(name, arguments, results[0]);
  // Laid out row by row on the CPU, column by column on CUDA.
  if (name == "aten::nonzero_static" && op.schema().overload_name().empty())
    results[0].strides = {std::max<int64_t>(results[0].sizes[1], 1), 1};
  return results;
}

}  // namespace torch_tpu::aten
