// Products of COO matrices with dense and with sparse ones.
#include <ATen/ExpandUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <torch/library.h>

#include "aten/sparse_parts.h"

namespace torch_tpu::aten {
namespace {

void check_product(const char* name, const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(mat1.dim() == 2, name, ": matrices expected, got ", mat1.dim(), "D tensor");
  TORCH_CHECK(mat2.dim() == 2, name, ": matrices expected, got ", mat2.dim(), "D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), name, ": Argument #3 (mat2): expected dim 0 size ", mat1.size(1), ", got ",
              mat2.size(0));
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), name, ": mat1 and mat2 must have the same dtype, but got ",
              mat1.scalar_type(), " and ", mat2.scalar_type());
}

void check_matrix(const char* name, const at::Tensor& coo, int64_t dims) {
  TORCH_CHECK(coo.is_sparse(), name, ": expected a tensor of layout torch.sparse_coo, got ", coo.layout());
  TORCH_CHECK(coo.sparse_dim() == dims && coo.dense_dim() == 0, name, ": expected ", dims,
              " sparse dims and no dense dims, got ", coo.sparse_dim(), " and ", coo.dense_dim());
}

at::Tensor product_with_dense(const char* name, const at::Tensor& sparse, const at::Tensor& dense) {
  TORCH_CHECK(!dense.is_sparse(), name, ": expected 'mat2' to be dense, got ", dense.layout());
  check_product(name, sparse, dense);
  check_matrix(name, sparse, 2);
  return sparse_times_dense(sparse._indices(), sparse._values(), dense, sparse.size(0));
}

// beta * self + alpha * product; beta == 0 ignores self, NaN and all.
at::Tensor scaled_sum(const at::Tensor& self, const at::Tensor& product, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  const at::Tensor scaled = alpha.equal(1) ? product : product * alpha;
  if (beta.toComplexDouble() == 0.) return scaled;
  return (beta.equal(1) ? self : self * beta) + scaled;
}

at::Tensor add_product(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                       const at::Scalar& alpha) {
  TORCH_CHECK(!self.is_sparse(), "addmm: expected 'self' to be dense, got ", self.layout());
  TORCH_CHECK(mat1.is_sparse(), "addmm: expected 'mat1' to be sparse, got ", mat1.layout());
  const at::Tensor product = product_with_dense("addmm", mat1, mat2);
  return scaled_sum(self.expand(product.sizes()), product, beta, alpha).to(self.scalar_type());
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& result) {
  return assign_dense(result, add_product(self, mat1, mat2, beta, alpha));
}

at::Tensor& addmm_in_place(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                           const at::Scalar& alpha) {
  return self.copy_(add_product(self, mat1, mat2, beta, alpha));
}

// One product of a block-diagonal matrix.
at::Tensor batch_product(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.is_sparse() && !mat2.is_sparse(), "bmm_sparse: expected 'self' to be sparse and 'mat2' to be dense");
  TORCH_CHECK(self.dim() == 3 && mat2.dim() == 3, "bmm_sparse: expected 3-D tensors, got ", self.dim(), "D and ",
              mat2.dim(), "D");
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "bmm_sparse: expected equal dtypes, got ", self.scalar_type(),
              " and ", mat2.scalar_type());
  check_matrix("bmm_sparse", self, 3);
  const at::Tensor batch = self._indices().select(0, 0);
  const at::Tensor indices = at::stack(
      {batch * self.size(1) + self._indices().select(0, 1), batch * self.size(2) + self._indices().select(0, 2)});
  return sparse_times_dense(indices, self._values(), mat2.reshape({mat2.size(0) * mat2.size(1), mat2.size(2)}),
                            self.size(0) * self.size(1))
      .view({self.size(0), self.size(1), mat2.size(2)});
}

at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& result) {
  return assign_dense(result, batch_product(self, mat2));
}

// Every entry of `self` meets the row of `other` that its column names.
at::Tensor sparse_times_sparse(const at::Tensor& self, const at::Tensor& other) {
  check_product("sparse_sparse_matmul", self, other);
  check_matrix("sparse_sparse_matmul", self, 2);
  check_matrix("sparse_sparse_matmul", other, 2);
  const std::vector<int64_t> sizes{self.size(0), other.size(1)};
  const at::Tensor right = other.coalesce();
  if (self._nnz() == 0 || right._nnz() == 0) return empty_coo(2, sizes, self._values().options());
  const at::Tensor rows = right._indices().select(0, 0), wanted = self._indices().select(0, 1);
  const ExpandedRanges pairs =
      expand_ranges(at::searchsorted(rows, wanted), at::searchsorted(rows, wanted, false, /*right=*/true));
  if (pairs.count == 0) return empty_coo(2, sizes, self._values().options());
  const at::Tensor indices = at::stack({self._indices().select(0, 0).index_select(0, pairs.range),
                                        right._indices().select(0, 1).index_select(0, pairs.place)});
  const at::Tensor products =
      self._values().index_select(0, pairs.range) * right._values().index_select(0, pairs.place);
  // The padding repeats the last pair: as zeros it adds nothing.
  return make_coo(indices, products.masked_fill(pairs.padding, 0), sizes, false).coalesce();
}

// The product as its rows that have entries.
at::Tensor product_rows(const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(mat1.is_sparse() && !mat2.is_sparse(), "hspmm: expected 'mat1' to be sparse and 'mat2' to be dense");
  check_product("hspmm", mat1, mat2);
  check_matrix("hspmm", mat1, 2);
  const std::vector<int64_t> sizes{mat1.size(0), mat2.size(1)};
  const int64_t entries = mat1._nnz();
  if (entries == 0) return empty_coo(1, sizes, mat2.options());
  const at::Tensor rows = mat1._indices().narrow(0, 0, 1);
  const Groups groups = group_indices(rows, {mat1.size(0)});
  const int64_t count = groups.count(), padded = bucket(count, entries);
  const at::Tensor order = groups.order;
  const at::Tensor packed = at::stack({groups.run, mat1._indices().select(0, 1).index_select(0, order)});
  const at::Tensor values = sparse_times_dense(packed, mat1._values().index_select(0, order), mat2, padded);
  const at::Tensor row_of =
      at::zeros({1, padded}, rows.options()).index_copy_(1, groups.run, rows.index_select(1, order));
  return make_coo(row_of.narrow(1, 0, count), values.narrow(0, 0, count), sizes, false);
}

at::Tensor& hspmm_out(const at::Tensor& mat1, const at::Tensor& mat2, at::Tensor& result) {
  return assign_coo(result, product_rows(mat1, mat2));
}

at::Tensor& sspaddmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha, at::Tensor& result) {
  TORCH_CHECK(self.is_sparse() && mat1.is_sparse() && result.is_sparse() && !mat2.is_sparse(),
              "sspaddmm: expected 'self', 'mat1' and the result to be sparse and 'mat2' to be dense");
  check_product("sspaddmm", mat1, mat2);
  check_matrix("sspaddmm", self, 2);
  TORCH_CHECK(self.size(0) == mat1.size(0) && self.size(1) == mat2.size(1),
              "sspaddmm: Argument #1: Expected size of the product, got ", self.sizes());
  const at::Tensor rows = product_rows(mat1, mat2);
  const int64_t count = rows._nnz(), columns = mat2.size(1);
  const at::Tensor indices =
      at::stack({rows._indices().select(0, 0).view({count, 1}).expand({count, columns}).reshape({-1}),
                 at::arange(columns, rows._indices().options()).expand({count, columns}).reshape({-1})});
  return assign_coo(
      result, make_coo(at::cat({self._indices(), indices}, 1),
                       at::cat({self._values() * beta, rows._values().reshape({-1}) * alpha}, 0), self.sizes(), false));
}

at::Tensor& sspaddmm_out_of_dense(const at::Tensor& self, const at::Tensor&, const at::Tensor&, const at::Scalar&,
                                  const at::Scalar&, at::Tensor& result) {
  TORCH_CHECK(false, "tensor.sspaddmm(...) can only be called on sparse tensors, got ", self.layout());
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("addmm", &add_product);
  m.impl("addmm.out", &addmm_out);
  m.impl("addmm_", &addmm_in_place);
  m.impl("bmm", &batch_product);
  m.impl("bmm.out", &bmm_out);
  m.impl("_sparse_sparse_matmul", &sparse_times_sparse);
  m.impl("hspmm", &product_rows);
  m.impl("hspmm.out", &hspmm_out);
  m.impl("sspaddmm.out", &sspaddmm_out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("sspaddmm.out", &sspaddmm_out_of_dense); }

}  // namespace torch_tpu::aten
