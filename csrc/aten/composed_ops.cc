// Ops that are made of other ops, or whose arguments PyTorch's meta kernels check by CUDA's rules.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <set>

#include "aten/op_entry.h"

namespace torch_tpu::aten {
namespace {

bool is_float8(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat8_e4m3fn || t.scalar_type() == at::kFloat8_e5m2;
}

at::Tensor scaled_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                     const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                     const std::optional<at::Tensor>& scale_result, std::optional<at::ScalarType> out_dtype, bool) {
  TORCH_CHECK(self.dim() == 2, "mat_a must be a matrix");
  TORCH_CHECK(mat2.dim() == 2, "mat_b must be a matrix");
  TORCH_CHECK(self.size(1) == mat2.size(0), "mat_a and mat_b shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  const bool single = scale_a.numel() == 1 && scale_b.numel() == 1;
  const bool by_row =
      scale_a.sizes() == at::IntArrayRef({self.size(0), 1}) && scale_b.sizes() == at::IntArrayRef({1, mat2.size(1)});
  TORCH_CHECK_VALUE(
      is_float8(self) && is_float8(mat2) && scale_a.scalar_type() == at::kFloat &&
          scale_b.scalar_type() == at::kFloat && (single || by_row),
      "Invalid scaling configuration: _scaled_mm takes float8 matrices and float32 scales, single ones or "
      "(",
      self.size(0), ", 1) and (1, ", mat2.size(1), "), got ", self.scalar_type(), " ", self.sizes(), " by ",
      scale_a.scalar_type(), " ", scale_a.sizes(), " and ", mat2.scalar_type(), " ", mat2.sizes(), " by ",
      scale_b.scalar_type(), " ", scale_b.sizes());
  const auto optional = [](const std::optional<at::Tensor>& t) {
    return t && t->defined() ? c10::IValue(*t) : c10::IValue();
  };
  static const OpEntry& entry = internal_entry(
      "tpu::scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias, Tensor? scale_result, *, "
      "ScalarType dtype) -> Tensor");
  torch::jit::Stack stack{self,
                          mat2,
                          scale_a,
                          scale_b,
                          optional(bias),
                          optional(scale_result),
                          c10::IValue(out_dtype.value_or(self.scalar_type()))};
  run_entry(entry, &stack);
  return stack.back().toTensor();
}

at::Tensor& scaled_mm_out(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& scale_result, std::optional<at::ScalarType> out_dtype,
                          bool fast, at::Tensor& out) {
  const at::Tensor y =
      scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype.value_or(out.scalar_type()), fast);
  return out.resize_(y.sizes()).copy_(y);
}

at::Tensor scaled_mm_v2(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                        at::IntArrayRef recipe_a, at::IntArrayRef, at::TensorList scale_b, at::IntArrayRef recipe_b,
                        at::IntArrayRef, const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype,
                        at::IntArrayRef, bool fast) {
  // Recipes 0 and 1: one scale a tensor, one a row.
  const auto known = [](at::IntArrayRef recipe) { return recipe.size() == 1 && (recipe[0] == 0 || recipe[0] == 1); };
  TORCH_CHECK_VALUE(scale_a.size() == 1 && scale_b.size() == 1 && known(recipe_a) && known(recipe_b),
                    "_scaled_mm_v2 on the tpu device takes one scale a tensor or one a row (recipes 0 and 1), got "
                    "recipes ",
                    recipe_a, " and ", recipe_b);
  return scaled_mm(self, mat2, scale_a[0], scale_b[0], bias, {}, out_dtype, fast);
}

at::Tensor& scaled_mm_v2_out(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                             at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                             at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const std::optional<at::Tensor>& bias,
                             std::optional<at::ScalarType> out_dtype, at::IntArrayRef contraction, bool fast,
                             at::Tensor& out) {
  const at::Tensor y = scaled_mm_v2(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias,
                                    out_dtype.value_or(out.scalar_type()), contraction, fast);
  return out.resize_(y.sizes()).copy_(y);
}

// The inference path of nn.TransformerEncoderLayer.
at::Tensor transformer_encoder_layer(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                                     const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                     const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                     bool norm_first, double eps, const at::Tensor& norm_weight_1,
                                     const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                     const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                                     const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                                     const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                                     std::optional<int64_t> mask_type) {
  const auto norm_1 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps);
  };
  const auto norm_2 = [&](const at::Tensor& x) {
    return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps);
  };
  at::Tensor x = norm_first ? norm_1(src) : src;
  x = std::get<0>(at::_native_multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
                                                   proj_bias, mask, /*need_weights=*/false,
                                                   /*average_attn_weights=*/true, mask_type));
  x = x.add(src);
  if (!norm_first) x = norm_1(x);
  at::Tensor hidden = at::linear(norm_first ? norm_2(x) : x, ffn_weight_1, ffn_bias_1);
  hidden = use_gelu ? at::gelu(hidden) : at::relu(hidden);
  x = at::linear(hidden, ffn_weight_2, ffn_bias_2).add(x);
  return norm_first ? x : norm_2(x);
}

// How many entries each diagonal has depends on the offsets: they are read, and the positions are worked out here.
at::Tensor sparse_diagonals(const at::Tensor& diagonals, const at::Tensor& offsets, at::IntArrayRef shape,
                            std::optional<at::Layout> layout) {
  TORCH_CHECK(diagonals.dim() == 1 || diagonals.dim() == 2, "Diagonals must be vector or matrix");
  TORCH_CHECK(shape.size() == 2, "Output shape must be 2d");
  TORCH_CHECK(offsets.dim() <= 1, "Offsets must be scalar or vector");
  TORCH_CHECK(offsets.scalar_type() == at::kLong, "Offset Tensor must have dtype Long but got ", offsets.scalar_type());
  const at::Layout target = layout.value_or(at::kSparse);
  TORCH_CHECK(target == at::kSparse || target == at::kSparseCsr || target == at::kSparseCsc,
              "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got ", target);
  const at::Tensor rows = diagonals.dim() == 1 ? diagonals.unsqueeze(0) : diagonals;
  TORCH_CHECK(rows.size(0) == offsets.numel(), "Number of diagonals (", rows.size(0),
              ") does not match the number of offsets (", offsets.numel(), ")");
  const at::Tensor host = offsets.reshape({-1}).cpu();
  const std::vector<int64_t> starts(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
  TORCH_CHECK(std::set<int64_t>(starts.begin(), starts.end()).size() == starts.size(),
              "Offset tensor contains duplicate values");
  std::vector<int64_t> row_indices, columns, sources;
  for (size_t d = 0; d < starts.size(); ++d) {
    const int64_t first = std::max<int64_t>(starts[d], 0);
    const int64_t end = std::min({shape[1], shape[0] + starts[d], rows.size(1)});
    for (int64_t column = first; column < end; ++column) {
      row_indices.push_back(column - starts[d]);
      columns.push_back(column);
      sources.push_back(static_cast<int64_t>(d) * rows.size(1) + column);
    }
  }
  const auto on_device = [&](const std::vector<int64_t>& v) { return at::tensor(v, at::kLong).to(rows.device()); };
  const at::Tensor indices = at::stack({at::tensor(row_indices, at::kLong), at::tensor(columns, at::kLong)});
  const at::Tensor result = at::_sparse_coo_tensor_unsafe(
      indices.to(rows.device()), rows.reshape({-1}).index_select(0, on_device(sources)), shape);
  return target == at::kSparse ? result : result.to_sparse(target);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_mm", &scaled_mm);
  m.impl("_scaled_mm.out", &scaled_mm_out);
  m.impl("_scaled_mm_v2", &scaled_mm_v2);
  m.impl("_scaled_mm_v2.out", &scaled_mm_v2_out);
  m.impl("_transformer_encoder_layer_fwd", &transformer_encoder_layer);
  m.impl("_spdiags", &sparse_diagonals);
}

}  // namespace torch_tpu::aten
