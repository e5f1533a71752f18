// torch.sparse.mm(csr, dense, reduce): what meets in an element of the product is summed, averaged, or compared.
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "aten/sparse_parts.h"

namespace torch_tpu::aten {
namespace {

enum class Reduction { kSum, kMean, kMax, kMin };

Reduction reduction_of(std::string_view name) {
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  if (name == "amax") return Reduction::kMax;
  if (name == "amin") return Reduction::kMin;
  TORCH_CHECK(false, "sparse.mm: reduce argument must be either sum, mean, amax or amin, got ", name);
}

bool chooses(Reduction r) { return r == Reduction::kMax || r == Reduction::kMin; }

// [2, entries]: rows, columns.
at::Tensor coordinates(const at::Tensor& csr) {
  return at::_convert_indices_from_csr_to_coo(csr.crow_indices(), csr.col_indices()).to(at::kLong);
}

// Each row of x over its number of entries.
at::Tensor averaged(const at::Tensor& x, const at::Tensor& csr) {
  return x / csr.crow_indices().diff().clamp_min(1).to(x.scalar_type()).unsqueeze(1);
}

std::tuple<at::Tensor, at::Tensor> reduce_product(const at::Tensor& self, const at::Tensor& other,
                                                  c10::string_view reduce) {
  const Reduction reduction = reduction_of(reduce);
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2, "sparse.mm: expected 2-D matrices, got ", self.dim(), "D and ",
              other.dim(), "D");
  TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "sparse.mm: expected equal dtypes, got ", self.scalar_type(),
              " and ", other.scalar_type());
  const int64_t entries = self._nnz();
  at::Tensor chosen = at::empty({0}, self.col_indices().options());
  if (entries == 0) return {at::zeros({self.size(0), other.size(1)}, other.options()), chosen};
  const at::Tensor indices = coordinates(self), rows = indices.select(0, 0);
  if (!chooses(reduction)) {
    const at::Tensor sum = sparse_times_dense(indices, self.values(), other, self.size(0));
    return {reduction == Reduction::kMean ? averaged(sum, self) : sum, chosen};
  }
  const at::Tensor products = self.values().unsqueeze(1) * other.index_select(0, indices.select(0, 1));
  const at::Tensor result = at::zeros({self.size(0), other.size(1)}, other.options())
                                .index_reduce_(0, rows, products, reduction == Reduction::kMax ? "amax" : "amin",
                                               /*include_self=*/false);
  if (at::GradMode::is_enabled() && (self.requires_grad() || other.requires_grad())) {
    // The first entry that gave the result; their number where there is none.
    const at::Tensor number = at::arange(entries, indices.options()).unsqueeze(1);
    const at::Tensor candidates = at::where(products.eq(result.index_select(0, rows)), number, entries);
    chosen = at::full(result.sizes(), entries, indices.options())
                 .index_reduce_(0, rows, candidates, "amin")
                 .to(chosen.scalar_type());
  }
  return {result, chosen};
}

std::tuple<at::Tensor, at::Tensor> reduce_product_backward(const at::Tensor& self, const at::Tensor& grad_out,
                                                           const at::Tensor& weight, c10::string_view reduce,
                                                           const at::Tensor& arg_out, std::array<bool, 2> output_mask) {
  const Reduction reduction = reduction_of(reduce);
  const int64_t entries = self._nnz();
  const at::Tensor indices = coordinates(self), columns = indices.select(0, 1);
  at::Tensor values, grad_weight;
  if (entries == 0) {
    values = at::zeros_like(self.values());
    grad_weight = at::zeros_like(weight);
  } else if (chooses(reduction)) {
    // Elements of empty rows chose nothing.
    const at::Tensor some = arg_out.lt(entries), entry = at::where(some, arg_out, 0).to(at::kLong).flatten();
    const at::Tensor grad = at::where(some, grad_out, 0);
    const at::Tensor column = columns.index_select(0, entry).view_as(arg_out);
    if (output_mask[0])
      values = at::zeros_like(self.values()).index_add_(0, entry, (grad * weight.gather(0, column)).flatten());
    if (output_mask[1])
      grad_weight =
          at::zeros_like(weight).scatter_add_(0, column, grad * self.values().index_select(0, entry).view_as(arg_out));
  } else {
    const at::Tensor grad = reduction == Reduction::kMean ? averaged(grad_out, self) : grad_out;
    if (output_mask[0])
      values = run_internal("tpu::sampled_product(Tensor indices, Tensor left, Tensor right) -> Tensor", indices, grad,
                            weight.t());
    if (output_mask[1]) grad_weight = sparse_times_dense(indices.flip(0), self.values(), grad, weight.size(0));
  }
  at::Tensor grad_self;
  if (output_mask[0])
    grad_self = at::_sparse_compressed_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(), values,
                                                     self.sizes(), self.options());
  return {grad_self, output_mask[1] ? grad_weight : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_sparse_mm_reduce_impl", &reduce_product);
  m.impl("_sparse_mm_reduce_impl_backward", &reduce_product_backward);
}

}  // namespace torch_tpu::aten
