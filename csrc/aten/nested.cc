// Nested tensors. The jagged layout is a Python subclass over dense tensors (torch.nested), so its ops are dense ones;
// here are those that PyTorch has for CPU and CUDA memory only. The strided layout is served as far as PyTorch's
// kernels for it are compositions; its other ops raise NotImplementedError.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "aten/forwarded_kernels.h"
#include "aten/sparse_parts.h"

namespace torch_tpu::aten {
namespace {

// Where a sequence is longer than the padded dim, its rows beyond are zeros, as on CUDA: finding out would wait for the
// device, and this is the backward of to_padded_tensor.
at::Tensor padded_to_jagged(const at::Tensor& dense, at::TensorList offsets, std::optional<int64_t> total) {
  TORCH_CHECK_NOT_IMPLEMENTED(offsets.size() == 1, "_padded_dense_to_jagged_forward: one jagged dim is supported, got ",
                              "offsets of ", offsets.size(), " dims. Pad dim by dim.");
  TORCH_CHECK(dense.dim() >= 2, "_padded_dense_to_jagged_forward: expected a dense tensor of 2 or more dims, got ",
              dense.dim());
  const at::Tensor& bounds = offsets[0];
  if (!total) total = bounds.select(0, bounds.size(0) - 1).item<int64_t>();
  return run_internal("tpu::padded_to_jagged(Tensor dense, Tensor offsets, int total) -> Tensor", dense, bounds,
                      *total);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_padded_dense_to_jagged_forward", &padded_to_jagged);
  forward_kernels(m, c10::DispatchKey::CPU,
                  {"_nested_compute_contiguous_strides_offsets", "_nested_from_padded", "_nested_view_from_buffer"});
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  constexpr auto kFrom = c10::DispatchKey::NestedTensorCPU;
  forward_pointwise_kernels(m, kFrom,
                            {"abs", "cos", "gelu", "isinf", "isnan", "isneginf", "isposinf", "logical_not", "neg",
                             "relu", "sgn", "silu", "sin", "sqrt", "tanh"});
  forward_kernels(m, kFrom,
                  {"_nested_from_padded_and_nested_example",
                   "_nested_select_backward",
                   "_nested_tensor_size",
                   "_nested_tensor_storage_offsets",
                   "_nested_tensor_strides",
                   "_safe_softmax",
                   "_softmax",
                   "_softmax_backward_data",
                   "_to_copy",
                   "add.Tensor",
                   "add_.Tensor",
                   "alias",
                   "all.dim",
                   "bmm",
                   "cat",
                   "chunk",
                   "clone",
                   "copy_",
                   "detach",
                   "div.Scalar",
                   "div.Tensor",
                   "embedding",
                   "empty_like",
                   "eq.Scalar",
                   "eq.Tensor",
                   "fill_.Scalar",
                   "fill_.Tensor",
                   "ge.Scalar",
                   "gelu_backward",
                   "gt.Scalar",
                   "is_same_size",
                   "linear",
                   "linear_backward",
                   "masked_fill.Scalar",
                   "matmul",
                   "matmul.out",
                   "matmul_backward",
                   "mul.Scalar",
                   "mul.Tensor",
                   "mul_.Scalar",
                   "mul_.Tensor",
                   "narrow",
                   "native_dropout",
                   "native_dropout_backward",
                   "native_layer_norm",
                   "native_layer_norm_backward",
                   "normal_",
                   "ones_like",
                   "select.int",
                   "silu_backward",
                   "split_with_sizes",
                   "squeeze",
                   "squeeze.dim",
                   "squeeze.dims",
                   "sub.Tensor",
                   "threshold_backward",
                   "to_padded_tensor",
                   "transpose.int",
                   "unbind.int",
                   "unsqueeze",
                   "value_selecting_reduction_backward",
                   "values",
                   "view",
                   "where.self",
                   "where.self_out",
                   "zero_"});
}

}  // namespace torch_tpu::aten
