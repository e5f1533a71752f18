// The device has no tensors of quantized dtypes: the ops that make them say what to use instead. Fake quantization and
// observers are lowerings (csrc/lowering/quantize.cc, observer.cc).
#include <ATen/ATen.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

at::Tensor dequantize(const at::Tensor& self) { return self.to(at::kFloat); }

void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, op.schema().name(),
      ": the tpu device has no tensors of quantized dtypes. Use fake_quantize_per_tensor_affine or "
      "fake_quantize_per_channel_affine, integer tensors with _int_mm, or quantize on the CPU.");
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("dequantize.self", &dequantize);
  for (const char* name : {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor.tensors",
                           "quantize_per_tensor_dynamic", "quantize_per_channel", "_empty_affine_quantized",
                           "_empty_per_channel_affine_quantized", "_make_per_tensor_quantized_tensor",
                           "_make_per_channel_quantized_tensor"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

}  // namespace torch_tpu::aten
