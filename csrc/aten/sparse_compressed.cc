// Tensors of layouts CSR, CSC, BSR and BSC: what PyTorch's compositions leave to each kind of memory. Products and sums
// go by way of COO, which costs one program for the row numbers.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/sparse_parts.h"

namespace torch_tpu::aten {
namespace {

bool is_compressed(const at::Tensor& t) { return at::sparse_csr::is_sparse_compressed(t); }

// As COO; a strided tensor stays what it is.
at::Tensor coordinates_of(const at::Tensor& t) { return is_compressed(t) ? t.to_sparse() : t; }

// `value` (COO or strided) in the layout and index type of `like`.
at::Tensor in_layout_of(const at::Tensor& value, const at::Tensor& like) {
  const auto index_type = at::sparse_csr::getIndexDtype(like);
  std::optional<std::vector<int64_t>> block;
  if (like.layout() == at::kSparseBsr || like.layout() == at::kSparseBsc) {
    const auto size = at::sparse_csr::getBlockSize(like);
    block = std::vector<int64_t>{size[0], size[1]};
  }
  const at::Tensor converted =
      value.to_sparse(like.layout(), block ? at::OptionalIntArrayRef(*block) : at::OptionalIntArrayRef(),
                      value.is_sparse() ? std::nullopt : std::optional<int64_t>(like.dense_dim()));
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(converted);
  return at::_sparse_compressed_tensor_unsafe(compressed.to(index_type), plain.to(index_type), converted.values(),
                                              converted.sizes(), converted.options());
}

at::Tensor& assign(at::Tensor& result, const at::Tensor& value) {
  if (result.layout() == at::kStrided)
    return assign_dense(result, value.layout() == at::kStrided ? value : value.to_dense());
  TORCH_CHECK(is_compressed(result), "expected a result of a compressed or strided layout, got ", result.layout());
  const at::Tensor converted = value.layout() == result.layout() ? value : in_layout_of(value, result);
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(converted);
  at::sparse_csr::get_sparse_csr_impl(result)->set_member_tensors(
      compressed, plain, converted.values().to(result.scalar_type()), converted.sizes());
  return result;
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& result) {
  if (self.layout() == at::kStrided) {
    TORCH_CHECK(is_compressed(other), "add: expected 'other' to be of a compressed layout, got ", other.layout());
    return assign_dense(result, at::add(self, other.to_sparse(), alpha));
  }
  TORCH_CHECK(self.layout() == other.layout(),
              "add(sparse, dense) is not supported. Use add(dense, sparse) instead. Got layouts ", self.layout(),
              " and ", other.layout());
  TORCH_CHECK(self.sizes() == other.sizes(),
              "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape ",
              self.sizes(), " and tensor `other` with shape ", other.sizes());
  if (other._nnz() == 0) return assign(result, self.to(result.scalar_type()).clone());
  const at::Tensor sum = at::add(self.to_sparse().coalesce(), other.to_sparse().coalesce(), alpha);
  return assign(result, in_layout_of(sum, self));
}

// The product of two matrices, of which at least one is compressed: COO if both are, else strided.
at::Tensor product_of(const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2, "addmm: expected 2-D matrices, got ", mat1.dim(), "D and ",
              mat2.dim(), "D");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), "addmm: expected equal dtypes, got ", mat1.scalar_type(),
              " and ", mat2.scalar_type());
  const at::Tensor left = coordinates_of(mat1), right = coordinates_of(mat2);
  if (left.is_sparse() && right.is_sparse()) return at::_sparse_sparse_matmul(left, right);
  if (left.is_sparse()) return sparse_times_dense(left._indices(), left._values(), right, left.size(0));
  const at::Tensor turned = sparse_times_dense(right._indices().flip(0), right._values(), left.t(), right.size(1));
  return turned.t();
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& result) {
  const at::Tensor product = product_of(mat1, mat2);
  const bool ignores_self = beta.toComplexDouble() == 0.;
  if (self.layout() == at::kStrided) {
    const at::Tensor dense = (product.is_sparse() ? product.to_dense() : product) * alpha;
    return assign(result, ignores_self ? dense : self.expand(dense.sizes()) * beta + dense);
  }
  TORCH_CHECK(product.is_sparse(), "addmm: computation on the tpu device is not implemented for ", self.layout(), " + ",
              mat1.layout(), " @ ", mat2.layout());
  TORCH_CHECK(self.sizes() == product.sizes(), "addmm: expected 'self' of size ", product.sizes(), ", got ",
              self.sizes());
  const at::Tensor scaled = alpha.equal(1) ? product : product * alpha;
  const at::Tensor sum = ignores_self ? scaled : at::add((self.to_sparse() * beta).coalesce(), scaled.coalesce());
  return assign(result, in_layout_of(sum, self));
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& result) {
  TORCH_CHECK(mat.dim() == 2 && vec.dim() == 1 && self.dim() <= 1, "vector + matrix @ vector expected, got ",
              self.dim(), ", ", mat.dim(), ", ", vec.dim());
  TORCH_CHECK(mat.size(1) == vec.size(0), "size mismatch, got input (", self.sizes(), "), mat (", mat.sizes(),
              "), vec (", vec.sizes(), ")");
  const at::Tensor product = product_of(mat, vec.unsqueeze(1)).squeeze(1) * alpha;
  return assign_dense(result, beta.toComplexDouble() == 0. ? product : self.expand(product.sizes()) * beta + product);
}

// beta * self + alpha * (mat1 @ mat2 at self's places).
at::Tensor sampled_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha) {
  TORCH_CHECK(self.layout() == at::kSparseCsr, "sampled_addmm: Expected self to be a matrix in CSR format, got ",
              self.layout());
  TORCH_CHECK(mat1.layout() == at::kStrided && mat2.layout() == at::kStrided,
              "sampled_addmm: Expected mat1 and mat2 to have strided layout");
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type() && mat1.scalar_type() == self.scalar_type(),
              "sampled_addmm: Expected self, mat1 and mat2 to have the same dtype");
  TORCH_CHECK(mat1.dim() >= 2 && mat2.dim() >= 2, "sampled_addmm: Expected mat1 and mat2 to be matrices");
  TORCH_CHECK(mat1.size(-1) == mat2.size(-2), "sampled_addmm: mat1 and mat2 shapes cannot be multiplied (",
              mat1.size(-2), "x", mat1.size(-1), " and ", mat2.size(-2), "x", mat2.size(-1), ")");
  TORCH_CHECK(self.size(-2) == mat1.size(-2) && self.size(-1) == mat2.size(-1), "sampled_addmm: the sizes of self ",
              self.sizes(), " are not those of the product");
  TORCH_CHECK_NOT_IMPLEMENTED(self.dim() == 2 && mat1.dim() == 2 && mat2.dim() == 2,
                              "sampled_addmm: batches are not supported on the tpu device. Call it for each matrix.");
  const at::Tensor indices = at::_convert_indices_from_csr_to_coo(self.crow_indices(), self.col_indices());
  const at::Tensor products =
      run_internal("tpu::sampled_product(Tensor indices, Tensor left, Tensor right) -> Tensor", indices, mat1, mat2) *
      alpha;
  const at::Tensor values = beta.toComplexDouble() == 0. ? products : self.values() * beta + products;
  return at::_sparse_compressed_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(), values,
                                              self.sizes(), self.options());
}

at::Tensor& sampled_addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                              const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& result) {
  return assign(result, sampled_addmm(self, mat1, mat2, beta, alpha));
}

// Sum or product over rows, columns or both of a CSR matrix; the reduced dims stay, of size 1.
at::Tensor reduce_csr(const char* name, const at::Tensor& self, at::IntArrayRef dims, bool keepdim,
                      std::optional<at::ScalarType> dtype, bool product_of_entries) {
  TORCH_CHECK(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported");
  TORCH_CHECK(self.layout() == at::kSparseCsr && self.dim() == 2, name, ": expected a CSR matrix, got ", self.layout());
  TORCH_CHECK(!dims.empty(), name, ": expected dims to reduce");
  const at::ScalarType type =
      dtype.value_or(at::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::kLong : self.scalar_type());
  const auto reduced = at::dim_list_to_bitset(dims, 2);
  const auto index_options = self.crow_indices().options();
  const at::Tensor values = self.values().to(type);
  std::vector<int64_t> sizes = self.sizes().vec();
  for (size_t d = 0; d < 2; ++d)
    if (reduced[d]) sizes[d] = 1;
  if (self._nnz() == 0)
    return at::_sparse_compressed_tensor_unsafe(at::zeros({sizes[0] + 1}, index_options), self.col_indices().clone(),
                                                values, sizes, values.options().layout(at::kSparseCsr));
  at::Tensor indices = self.to_sparse()._indices().clone();
  for (int64_t d = 0; d < 2; ++d)
    if (reduced[static_cast<size_t>(d)]) indices.select(0, d).zero_();
  const Groups groups = group_indices(indices, sizes);
  const int64_t count = groups.count();
  const at::Tensor sorted = values.index_select(0, groups.order);
  const at::Tensor places =
      at::zeros({2, count}, indices.options()).index_copy_(1, groups.run, indices.index_select(1, groups.order));
  const at::Tensor reduced_values =
      product_of_entries ? at::ones({count}, values.options()).index_reduce_(0, groups.run, sorted, "prod")
                         : at::zeros({count}, values.options()).index_add_(0, groups.run, sorted);
  const at::Tensor crow = at::_convert_indices_from_coo_to_csr(places.select(0, 0), sizes[0]);
  return at::_sparse_compressed_tensor_unsafe(crow.to(index_options.dtype()),
                                              places.select(0, 1).to(index_options.dtype()), reduced_values, sizes,
                                              values.options().layout(at::kSparseCsr));
}

at::Tensor sum_csr(const at::Tensor& self, at::IntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype) {
  return reduce_csr("_sparse_csr_sum", self, dims, keepdim, dtype, false);
}
at::Tensor prod_csr(const at::Tensor& self, at::IntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype) {
  return reduce_csr("_sparse_csr_prod", self, dims, keepdim, dtype, true);
}

// A sparse triangle gives XLA's solver nothing to save: it is solved as a dense one.
std::tuple<at::Tensor&, at::Tensor&> triangular_solve_out(const at::Tensor& self, const at::Tensor& a, bool upper,
                                                          bool transpose, bool unitriangular, at::Tensor& x,
                                                          at::Tensor& clone) {
  const at::Tensor dense = a.to_dense();
  assign_dense(x, std::get<0>(at::triangular_solve(self, dense, upper, transpose, unitriangular)));
  return {x, clone};
}

// PyTorch turns one layout into another in memory of its own kind. Here the entries are sorted anew.
at::Tensor to_csr(const at::Tensor& self, std::optional<int64_t> dense_dim) {
  return self.layout() == at::kSparseCsr ? self.clone() : self.to_sparse()._to_sparse_csr(dense_dim);
}
at::Tensor to_csc(const at::Tensor& self, std::optional<int64_t> dense_dim) {
  return self.layout() == at::kSparseCsc ? self.clone() : self.to_sparse()._to_sparse_csc(dense_dim);
}

bool has_blocks(const at::Tensor& self, at::Layout layout, at::IntArrayRef block) {
  if (self.layout() != layout) return false;
  const auto size = at::sparse_csr::getBlockSize(self);
  return block == at::IntArrayRef(size);
}
at::Tensor to_bsr(const at::Tensor& self, at::IntArrayRef block, std::optional<int64_t> dense_dim) {
  return has_blocks(self, at::kSparseBsr, block) ? self.clone() : self.to_dense()._to_sparse_bsr(block, dense_dim);
}
at::Tensor to_bsc(const at::Tensor& self, at::IntArrayRef block, std::optional<int64_t> dense_dim) {
  return has_blocks(self, at::kSparseBsc, block) ? self.clone() : self.to_dense()._to_sparse_bsc(block, dense_dim);
}

at::Tensor to_layout(const at::Tensor& self, std::optional<at::Layout> layout, at::OptionalIntArrayRef block,
                     std::optional<int64_t> dense_dim) {
  const at::Layout target = layout.value_or(at::kSparse);
  const bool blocked = target == at::kSparseBsr || target == at::kSparseBsc;
  TORCH_CHECK(blocked || !block, "to_sparse: ", self.layout(), " to ", target, " conversion does not use blocksize");
  if (blocked && !block) {
    TORCH_CHECK(self.layout() == target, "to_sparse: ", self.layout(), " to ", target,
                " conversion requires blocksize");
    return self.clone();
  }
  switch (target) {
    case at::kSparse:
      return self._to_sparse(self.sparse_dim());
    case at::kSparseCsr:
      return to_csr(self, dense_dim);
    case at::kSparseCsc:
      return to_csc(self, dense_dim);
    case at::kSparseBsr:
      return to_bsr(self, *block, dense_dim);
    case at::kSparseBsc:
      return to_bsc(self, *block, dense_dim);
    default:
      TORCH_CHECK(false, "to_sparse: unexpected layout ", target);
  }
}

// Checked on the device, read once.
void validate_indices(bool is_crow, const at::Tensor& compressed, const at::Tensor& plain, int64_t compressed_size,
                      int64_t plain_size, int64_t entries) {
  const char* const c = is_crow ? "crow_indices" : "ccol_indices";
  const char* const p = is_crow ? "col_indices" : "row_indices";
  const at::Tensor lengths = compressed.diff();
  std::vector<at::Tensor> ok{compressed.select(-1, 0).eq(0).all(),
                             compressed.select(-1, compressed_size).eq(entries).all(),
                             at::logical_and(lengths.ge(0), lengths.le(plain_size)).all(),
                             at::logical_and(plain.ge(0), plain.lt(plain_size)).all()};
  if (plain.numel() > 0) {
    // Within a row the plain indices rise: entries that do not begin a row are greater than the one before.
    const int64_t batches = plain.numel() / entries;
    const at::Tensor rows = at::_convert_indices_from_csr_to_coo(compressed, plain);
    const at::Tensor row = rows.select(0, rows.size(0) - 2).view({batches, entries});
    const at::Tensor flat = plain.reshape({batches, entries});
    ok.push_back(at::logical_or(row.diff().ne(0), flat.diff().gt(0)).all());
  }
  const at::Tensor flags = at::stack(ok).cpu();
  const bool* good = flags.const_data_ptr<bool>();
  TORCH_CHECK(good[0], "`", c, "[..., 0] == 0` is not satisfied.");
  TORCH_CHECK(good[1], "`", c, "[..., -1] == nnz` is not satisfied.");
  TORCH_CHECK(good[2], "`0 <= ", c, "[..., 1:] - ", c, "[..., :-1] <= ", is_crow ? "ncols" : "nrows",
              "` is not satisfied.");
  TORCH_CHECK(good[3], "`0 <= ", p, " < ", is_crow ? "ncols" : "nrows", "` is not satisfied.");
  TORCH_CHECK(ok.size() < 5 || good[4], "`", p, "[..., ", c, "[..., i - 1]:", c, "[..., i]] for all i = 1, ..., ",
              is_crow ? "nrows" : "ncols",
              " are sorted and distinct along the last dimension values` is not satisfied.");
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_to_sparse", &to_layout);
  m.impl("_to_sparse_csr", &to_csr);
  m.impl("_to_sparse_csc", &to_csc);
  m.impl("_to_sparse_bsr", &to_bsr);
  m.impl("_to_sparse_bsc", &to_bsc);
  m.impl("add.out", &add_out);
  m.impl("addmm.out", &addmm_out);
  m.impl("addmv.out", &addmv_out);
  m.impl("sparse_sampled_addmm", &sampled_addmm);
  m.impl("sparse_sampled_addmm.out", &sampled_addmm_out);
  m.impl("_sparse_csr_sum.dim_dtype", &sum_csr);
  m.impl("_sparse_csr_prod.dim_dtype", &prod_csr);
  m.impl("triangular_solve.X", &triangular_solve_out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_validate_compressed_sparse_indices", &validate_indices); }

}  // namespace torch_tpu::aten
