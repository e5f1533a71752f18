// COO tensors: coalescing, masks, selection.
#include <ATen/WrapDimUtilsMulti.h>
#include <torch/library.h>

#include "aten/sparse_parts.h"

namespace torch_tpu::aten {
namespace {

at::Tensor coalesce(const at::Tensor& self) {
  TORCH_CHECK(!self.is_coalesced(), "_coalesce: the tensor is coalesced already");
  const int64_t entries = self._nnz();
  if (entries < 2) return self.clone()._coalesced_(true);
  const at::Tensor indices = self._indices(), values = self._values();
  if (self.sparse_dim() == 0)  // all entries are of one place
    return make_coo(at::empty({0, 1}, indices.options()), values.sum(0, /*keepdim=*/true, values.scalar_type()),
                    self.sizes(), true);
  const Groups groups = group_indices(indices, sparse_sizes(self));
  const int64_t count = groups.count(), padded = bucket(count, entries);
  const at::Tensor new_indices = at::zeros({self.sparse_dim(), padded}, indices.options())
                                     .index_copy_(1, groups.run, indices.index_select(1, groups.order));
  const at::Tensor new_values = at::zeros(values_sizes(padded, self), values.options())
                                    .index_add_(0, groups.run, values.index_select(0, groups.order));
  return make_coo(new_indices.narrow(1, 0, count), new_values.narrow(0, 0, count), self.sizes(), true);
}

void check_mask(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.layout() == at::kSparse, "sparse_mask: expected a mask of layout torch.sparse_coo, got ",
              mask.layout());
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
              self.sizes(), " but mask has size ", mask.sizes());
}

// Values of `self`, dense or sparse, at the places of `mask`.
at::Tensor sparse_mask(const at::Tensor& self, const at::Tensor& mask) {
  check_mask(self, mask);
  at::Tensor values;
  if (self.layout() == at::kSparse) {
    TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(),
                "sparse_mask(): self and mask must have the same number of "
                "sparse dims, got ",
                self.sparse_dim(), " and ", mask.sparse_dim());
    values = values_at(self.coalesce(), mask._indices());
  } else {
    TORCH_CHECK(self.layout() == at::kStrided,
                "sparse_mask: expected self of layout torch.strided or "
                "torch.sparse_coo, got ",
                self.layout());
    const at::Tensor rows = self.reshape(values_sizes(product(sparse_sizes(mask)), mask));
    values = mask._nnz() == 0 ? at::empty(values_sizes(0, mask), self.options())
                              : rows.index_select(0, flat_indices(mask._indices(), sparse_sizes(mask)));
  }
  return make_coo(mask._indices().clone(), values, mask.sizes(), mask.is_coalesced());
}

// `self` where `mask` has entries, zero elsewhere; times how often it has them if matches accumulate.
at::Tensor sparse_mask_projection(const at::Tensor& self, const at::Tensor& mask, bool accumulate_matches) {
  TORCH_CHECK(self.is_sparse() && mask.is_sparse(), "_sparse_mask_projection(): self and mask must be sparse");
  TORCH_CHECK(self.sizes() == mask.sizes() && self.sparse_dim() == mask.sparse_dim(),
              "_sparse_mask_projection(): operands have incompatible sizes; self has size ", self.sizes(),
              " but mask has size ", mask.sizes());
  const at::Tensor hits = at::ones({mask._nnz()}, self._values().options());
  at::Tensor counts = make_coo(mask._indices(), hits, sparse_sizes(mask), mask.is_coalesced()).coalesce();
  at::Tensor factor = values_at(counts, self._indices());
  if (!accumulate_matches) factor = factor.ne(0).to(factor.scalar_type());
  std::vector<int64_t> sizes(static_cast<size_t>(self._values().dim()), 1);
  sizes[0] = self._nnz();
  return make_coo(self._indices().clone(), self._values() * factor.view(sizes), self.sizes(), self.is_coalesced());
}

// Along a sparse dim: each element of `index` selects all entries that have it as their coordinate.
at::Tensor select_entries(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  const int64_t entries = self._nnz(), selected = index.size(0);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[static_cast<size_t>(dim)] = selected;
  if (selected > 0) {
    // Read together: whether the index is in range, which raises as on the CPU.
    const auto [low, high] = index.aminmax();
    const int64_t size = self.size(dim);
    TORCH_CHECK_INDEX(low.item<int64_t>() >= -size && high.item<int64_t>() < size,
                      "index_select(): index contains elements out of range for a dim of size ", size);
  }
  if (entries == 0 || selected == 0) return empty_coo(self.sparse_dim(), sizes, self._values().options());
  const at::Tensor wanted = at::where(index.lt(0), index + self.size(dim), index).to(at::kLong);
  const auto [sorted, order] = self._indices().select(0, dim).sort(/*stable=*/true, 0, false);
  const ExpandedRanges found =
      expand_ranges(at::searchsorted(sorted, wanted), at::searchsorted(sorted, wanted, false, /*right=*/true));
  if (found.count == 0) return empty_coo(self.sparse_dim(), sizes, self._values().options());
  const at::Tensor source = order.index_select(0, found.place);
  const at::Tensor indices = self._indices().index_select(1, source);
  indices.select(0, dim).copy_(found.range);
  return make_coo(indices.narrow(1, 0, found.count), self._values().index_select(0, source).narrow(0, 0, found.count),
                  sizes, false);
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK_INDEX(self.dim() != 0, "index_select() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK_INDEX(index.dim() == 1 && index.layout() == at::kStrided,
                    "index_select() argument index must be 1-D strided (non-sparse) tensor.");
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_select() argument index must be of type long or int.");
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (dim < self.sparse_dim()) return select_entries(self, dim, index);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[static_cast<size_t>(dim)] = index.size(0);
  return make_coo(self._indices().clone(), self._values().index_select(dim - self.sparse_dim() + 1, index), sizes,
                  self.is_coalesced());
}

// The gradient of _sparse_sum: `grad`, of what was left of self's dims, at each entry of self.
at::Tensor sparse_sum_backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef dims_to_sum) {
  TORCH_CHECK(self.is_sparse(), "_sparse_sum_backward: expected input_ to be sparse, got ", self.layout());
  const int64_t sparse_dim = self.sparse_dim();
  const auto summed = at::dim_list_to_bitset(dims_to_sum, static_cast<size_t>(self.dim()));
  if (self._nnz() == 0) return at::zeros_like(self);
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < sparse_dim; ++d)
    if (!summed[static_cast<size_t>(d)]) kept.push_back(d);
  at::Tensor values;
  if (kept.empty()) {
    TORCH_CHECK(!grad.is_sparse(), "_sparse_sum_backward: expected a dense grad, as all sparse dims are summed");
    values = grad.unsqueeze(0);
  } else {
    TORCH_CHECK(grad.is_sparse(), "_sparse_sum_backward: expected a sparse grad, got ", grad.layout());
    std::vector<at::Tensor> rows;
    for (const int64_t d : kept) rows.push_back(self._indices().select(0, d));
    values = values_at(grad.coalesce(), at::stack(rows));
  }
  for (int64_t d = sparse_dim; d < self.dim(); ++d)
    if (summed[static_cast<size_t>(d)]) values = values.unsqueeze(d - sparse_dim + 1);
  return make_coo(self._indices().clone(), values.expand(values_sizes(self._nnz(), self)).clone(), self.sizes(),
                  self.is_coalesced());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesce", &coalesce);
  m.impl("sparse_mask", &sparse_mask);
  m.impl("_sparse_mask_projection", &sparse_mask_projection);
  m.impl("index_select", &index_select);
  m.impl("_sparse_sum_backward", &sparse_sum_backward);
}

}  // namespace torch_tpu::aten
