// Chooses the fused attention lowering for scaled_dot_product_attention.
#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double, bool, std::optional<double>, bool) {
  const bool same_type = key.scalar_type() == query.scalar_type() && value.scalar_type() == query.scalar_type();
  // A mask that wants a gradient goes through the composite, whose autograd covers it.
  const bool fused = at::globalContext().userEnabledOverrideableSDP() && same_type && query.is_floating_point() &&
                     query.dim() == 4 && query.numel() > 0 && key.numel() > 0 && !query.is_nested() &&
                     !(mask && mask->defined() && mask->requires_grad());
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

}  // namespace
}  // namespace torch_tpu::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_tpu::aten::choose_attention)
}  // namespace at::native

namespace torch_tpu::aten {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_fused_sdp_choice", &choose_attention); }
}  // namespace torch_tpu::aten
