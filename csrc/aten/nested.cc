// Nested tensors. The jagged layout is a Python subclass over dense tensors (torch.nested), so its ops are dense ones;
// here are those that PyTorch has for CPU and CUDA memory only. The strided layout is served as far as PyTorch's
// kernels for it are compositions; its other ops raise NotImplementedError.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
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

// PyTorch's own kernels for what follows take masked_select's result for the whole of its storage, which here is
// rounded up to a bucket.
at::Tensor nested_of(const std::vector<at::Tensor>& pieces) {
  TORCH_CHECK(!pieces.empty(), "expected a nested tensor of at least one piece");
  const auto count = static_cast<int64_t>(pieces.size());
  const at::Tensor sizes = at::empty({count, pieces[0].dim()}, at::kLong);
  int64_t* size = sizes.mutable_data_ptr<int64_t>();
  std::vector<at::Tensor> flat;
  for (const at::Tensor& piece : pieces) {
    size = std::copy(piece.sizes().begin(), piece.sizes().end(), size);
    flat.push_back(piece.reshape({-1}));
  }
  const auto [strides, offsets] = at::_nested_compute_contiguous_strides_offsets(sizes);
  return at::_nested_view_from_buffer(at::cat(flat), sizes, strides, offsets);
}

// `sizes` are on the host.
at::Tensor nested_from_padded(const at::Tensor& padded, const at::Tensor& sizes, bool transpose_heads) {
  const at::Tensor source = transpose_heads ? padded.permute({0, 2, 1, 3}).flatten(2) : padded;
  std::vector<at::Tensor> pieces;
  for (int64_t i = 0; i < sizes.size(0); ++i) {
    at::Tensor piece = source.select(0, i);
    for (int64_t d = 0; d < sizes.size(1); ++d) piece = piece.narrow(d, 0, sizes[i][d].item<int64_t>());
    pieces.push_back(piece);
  }
  return nested_of(pieces);
}

// The pieces of a nested tensor; a dense one is the same for all up to `shared_dims` dims.
std::vector<at::Tensor> pieces_of(const at::Tensor& t, int64_t count, int64_t shared_dims) {
  if (t.is_nested() || (t.dim() > shared_dims && t.size(0) == count)) return t.unbind();
  TORCH_CHECK(t.dim() <= shared_dims, "a dense tensor of sizes ", t.sizes(),
              " does not broadcast to a nested tensor of ", count, " pieces");
  return std::vector<at::Tensor>(static_cast<size_t>(count), t);
}

int64_t piece_count(const at::Tensor& nested) { return nested._nested_tensor_size().size(0); }

at::Tensor where_nested(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  const int64_t count = piece_count(condition.is_nested() ? condition : self.is_nested() ? self : other);
  const auto conditions = pieces_of(condition, count, 0);
  const auto first = pieces_of(self, count, 0), second = pieces_of(other, count, 0);
  std::vector<at::Tensor> pieces;
  for (size_t i = 0; i < conditions.size(); ++i) pieces.push_back(at::where(conditions[i], first[i], second[i]));
  return nested_of(pieces);
}

at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return out.copy_(where_nested(condition, self, other));
}

at::Tensor matmul_nested(const at::Tensor& self, const at::Tensor& mat2) {
  const int64_t count = piece_count(self.is_nested() ? self : mat2);
  const auto left = pieces_of(self, count, 2), right = pieces_of(mat2, count, 2);
  TORCH_CHECK(left.size() == right.size(), "matmul: nested tensors of ", left.size(), " and ", right.size(), " pieces");
  std::vector<at::Tensor> pieces;
  for (size_t i = 0; i < left.size(); ++i) pieces.push_back(at::matmul(left[i], right[i]));
  return nested_of(pieces);
}

at::Tensor& matmul_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return out.copy_(matmul_nested(self, mat2));
}

at::Tensor sum_last_dim(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                        std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(dim && dim->size() == 1, "NestedTensor only allows reduction of a single dimension for now.");
  TORCH_CHECK(!dtype, "NestedTensor does not support dtype argument for now.");
  TORCH_CHECK(keepdim, "NestedTensor always requires keepdim=True for now.");
  const int64_t reduced = at::maybe_wrap_dim((*dim)[0], self.dim());
  TORCH_CHECK(reduced == self.dim() - 1,
              "NestedTensor can only be reduced across the last dimension for now got dimension ", reduced,
              " instead.");
  std::vector<at::Tensor> pieces;
  for (const at::Tensor& piece : self.unbind()) pieces.push_back(piece.sum({-1}, /*keepdim=*/true));
  return nested_of(pieces);
}

at::Tensor sum_last_dim_backward(const at::Tensor& grad, const at::Tensor& self, at::OptionalIntArrayRef, bool) {
  const std::vector<at::Tensor> grads = grad.unbind(), pieces = self.unbind();
  std::vector<at::Tensor> expanded;
  for (size_t i = 0; i < pieces.size(); ++i) expanded.push_back(grads[i].expand(pieces[i].sizes()));
  return nested_of(expanded);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_padded_dense_to_jagged_forward", &padded_to_jagged);
  forward_kernels(m, c10::DispatchKey::CPU, {"_nested_compute_contiguous_strides_offsets", "_nested_view_from_buffer"});
  m.impl("_nested_from_padded", &nested_from_padded);
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  constexpr auto kFrom = c10::DispatchKey::NestedTensorCPU;
  m.impl("matmul", &matmul_nested);
  m.impl("matmul.out", &matmul_out);
  m.impl("where.self", &where_nested);
  m.impl("where.self_out", &where_out);
  m.impl("sum.dim_IntList", &sum_last_dim);
  m.impl("_nested_sum_backward", &sum_last_dim_backward);
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
                   "zero_"});
}

}  // namespace torch_tpu::aten
