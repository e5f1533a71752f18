// Sums, products and softmax of COO tensors.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/SparseTensorUtils.h>
#include <torch/library.h>

#include "aten/sparse_parts.h"

namespace torch_tpu::aten {
namespace {

at::ScalarType common_type(const at::Tensor& self, const at::Tensor& other, const at::Tensor& result) {
  const at::ScalarType type = at::result_type(self, other);
  TORCH_CHECK(at::canCast(type, result.scalar_type()), "result type ", type,
              " can't be cast to the desired output type ", result.scalar_type());
  return type;
}

// Dense + sparse, entry by entry into the dense tensor, where that can be done in place.
at::Tensor& add_to_dense(const at::Tensor& dense, const at::Tensor& sparse, const at::Scalar& alpha,
                         at::Tensor& result) {
  TORCH_CHECK(!result.is_sparse() && !dense.is_sparse(), "add: expected a dense result of a dense and a sparse tensor");
  TORCH_CHECK(dense.sizes() == sparse.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              dense.sizes(), " while other has size ", sparse.sizes(),
              " (FYI: dense-sparse addition does not currently support broadcasting)");
  const at::ScalarType type = common_type(dense, sparse, result);
  const bool in_place = result.is_same(dense) && dense.is_contiguous() && dense.scalar_type() == type;
  if (sparse._nnz() == 0 || dense.numel() == 0) {
    if (!result.is_same(dense)) assign_dense(result, dense);
    return result;
  }
  const at::Tensor target = in_place ? dense : dense.to(type).clone(at::MemoryFormat::Contiguous);
  const at::Tensor values = sparse._values().to(type);
  if (sparse.sparse_dim() == 0) {
    target.add_(values.sum(0, false, type), alpha);
  } else {
    target.view(values_sizes(product(sparse_sizes(sparse)), sparse))
        .index_add_(0, flat_indices(sparse._indices(), sparse_sizes(sparse)), values, alpha);
  }
  return in_place ? result : assign_dense(result, target);
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& result) {
  if (!self.is_sparse()) return add_to_dense(self, other, alpha, result);
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  TORCH_CHECK(at::sparse::is_same_density(self, other),
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  const at::ScalarType type = common_type(self, other, result);
  at::native::alpha_check(type, alpha);
  if (other._nnz() == 0) return assign_coo(result, self.to(type).clone());
  const at::Tensor right = other._values().to(type);
  const at::Tensor scaled = alpha.equal(1) ? right.clone() : right * alpha;
  if (self._nnz() == 0)
    return assign_coo(result, make_coo(other._indices().clone(), scaled, other.sizes(), other.is_coalesced()));
  const at::Tensor sum = make_coo(at::cat({self._indices(), other._indices()}, 1),
                                  at::cat({self._values().to(type), scaled}, 0), self.sizes(), false);
  return assign_coo(result, self.is_coalesced() && other.is_coalesced() ? sum.coalesce() : sum);
}

at::Tensor& multiply_by_dense(const at::Tensor& sparse, const at::Tensor& dense, at::Tensor& result) {
  const at::ScalarType type = common_type(sparse, dense, result);
  if (dense.dim() == 0)
    return assign_coo(result, make_coo(sparse._indices().clone(), sparse._values().to(type) * dense.to(type),
                                       sparse.sizes(), sparse.is_coalesced()));
  const std::vector<int64_t> sizes = at::infer_size(sparse.sizes(), dense.sizes());
  const at::Tensor wide = sparse.sizes() == at::IntArrayRef(sizes) ? sparse : at::_sparse_broadcast_to(sparse, sizes);
  at::Tensor factor;
  if (dense.dim() <= wide.dense_dim()) {
    factor = dense;
  } else {
    c10::List<std::optional<at::Tensor>> coordinates;
    for (int64_t d = 0; d < wide.sparse_dim(); ++d) coordinates.push_back(wide._indices().select(0, d));
    factor = wide.sparse_dim() == 0 ? dense.unsqueeze(0) : at::index(dense.expand(sizes), coordinates);
  }
  return assign_coo(
      result, make_coo(wide._indices().clone(), wide._values().to(type) * factor.to(type), sizes, wide.is_coalesced()));
}

// The products of the entries that both have.
at::Tensor intersection(const at::Tensor& self, const at::Tensor& other, at::ScalarType type) {
  const at::IntArrayRef sizes = sparse_sizes(self);
  if (self._nnz() == 0 || other._nnz() == 0 || self.sparse_dim() == 0)
    return self.sparse_dim() > 0
               ? empty_coo(self.sparse_dim(), self.sizes(), self._values().options().dtype(type))
               : make_coo(self._indices(), self._values().to(type) * other._values().to(type), self.sizes(), true);
  const at::Tensor place = find_sorted(flat_indices(other._indices(), sizes), flat_indices(self._indices(), sizes));
  const at::Tensor shared = place.ge(0);
  const int64_t count = shared.sum().item<int64_t>();
  if (count == 0) return empty_coo(self.sparse_dim(), self.sizes(), self._values().options().dtype(type));
  const at::Tensor at_self = at::nonzero_static(shared, bucket(count, self._nnz()), 0).select(1, 0);
  const at::Tensor at_other = place.index_select(0, at_self).clamp_min(0);
  const at::Tensor values =
      self._values().index_select(0, at_self).to(type) * other._values().index_select(0, at_other).to(type);
  return make_coo(self._indices().index_select(1, at_self).narrow(1, 0, count), values.narrow(0, 0, count),
                  self.sizes(), true);
}

at::Tensor& mul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& result) {
  TORCH_CHECK(result.is_sparse(), "mul: expected a sparse result, got one of layout ", result.layout());
  if (!self.is_sparse()) return multiply_by_dense(other, self, result);
  if (!other.is_sparse()) return multiply_by_dense(self, other, result);
  if (self.dim() == 0 || other.dim() == 0) {
    // A 0-dim sparse tensor is a number.
    const bool first = self.dim() == 0;
    return multiply_by_dense(first ? other : self, (first ? self : other).to_dense(), result);
  }
  TORCH_CHECK(self.sizes() == other.sizes(),
              "mul: expected 'self' and 'other' to have same sizes when both are sparse, ", "but ", self.sizes(),
              " != ", other.sizes());
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim(),
              "mul: expected 'self' and 'other' to have the same number of "
              "sparse dims, got ",
              self.sparse_dim(), " and ", other.sparse_dim());
  const at::ScalarType type = common_type(self, other, result);
  if (self.is_coalesced() && other.is_coalesced()) return assign_coo(result, intersection(self, other, type));
  // The result has the places of the one that is uncoalesced, of two the smaller one, as on the CPU.
  const bool keep_self =
      self.is_coalesced() == other.is_coalesced() ? self._nnz() < other._nnz() : other.is_coalesced();
  const at::Tensor& kept = keep_self ? self : other;
  const at::Tensor found = values_at((keep_self ? other : self).coalesce(), kept._indices());
  return assign_coo(result, make_coo(kept._indices().clone(), kept._values().to(type) * found.to(type), self.sizes(),
                                     kept.is_coalesced()));
}

// Entries whose coordinates agree in all sparse dims but `dim`.
at::Tensor softmax_groups(const at::Tensor& coo, int64_t dim) {
  std::vector<int64_t> sizes = sparse_sizes(coo).vec();
  at::Tensor indices = coo._indices();
  const auto kept = at::cat({indices.narrow(0, 0, dim), indices.narrow(0, dim + 1, coo.sparse_dim() - dim - 1)}, 0);
  sizes.erase(sizes.begin() + dim);
  return group_indices(kept, sizes).table;
}

at::Tensor softmax(const at::Tensor& input, int64_t dim, bool half_to_float, bool log) {
  TORCH_CHECK(!half_to_float, "softmax with half to float conversion is not supported on the tpu device");
  TORCH_CHECK(input.is_sparse(), "softmax: expected a sparse tensor, got ", input.layout());
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()), "\"", log ? "log_softmax" : "softmax",
                              "\" not implemented for '", input.scalar_type(), "'");
  dim = at::maybe_wrap_dim(dim, input.dim());
  const at::Tensor coalesced = input.coalesce();
  const at::Tensor values = coalesced._values();
  at::Tensor result;
  if (coalesced._nnz() == 0) {
    result = values.clone();
  } else if (dim >= coalesced.sparse_dim()) {
    const int64_t inner = dim - coalesced.sparse_dim() + 1;
    result = log ? at::_log_softmax(values, inner, false) : at::_softmax(values, inner, false);
  } else {
    result = run_internal("tpu::run_softmax(Tensor values, Tensor groups, bool log) -> Tensor", values,
                          softmax_groups(coalesced, dim), log);
  }
  return make_coo(coalesced._indices().clone(), result, input.sizes(), true);
}

at::Tensor softmax_backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim, const at::Tensor& input,
                            bool log) {
  TORCH_CHECK(grad.is_sparse() && output.is_sparse(), "softmax backward: expected a sparse grad and a sparse output");
  TORCH_CHECK(grad.sizes() == output.sizes(), "softmax backward: sizes of grad and output differ: ", grad.sizes(),
              " and ", output.sizes());
  dim = at::maybe_wrap_dim(dim, input.dim());
  const at::Tensor coalesced = output.coalesce();
  const at::Tensor values = coalesced._values();
  const at::Tensor grad_values = values_at(grad.coalesce(), coalesced._indices());
  at::Tensor result;
  if (coalesced._nnz() == 0) {
    result = values.clone();
  } else if (dim >= coalesced.sparse_dim()) {
    const int64_t inner = dim - coalesced.sparse_dim() + 1;
    result = log ? at::_log_softmax_backward_data(grad_values, values, inner, values.scalar_type())
                 : at::_softmax_backward_data(grad_values, values, inner, values.scalar_type());
  } else {
    result = run_internal("tpu::run_softmax_backward(Tensor grad, Tensor output, Tensor groups, bool log) -> Tensor",
                          grad_values, values, softmax_groups(coalesced, dim), log);
  }
  return make_coo(coalesced._indices().clone(), result, output.sizes(), true);
}

at::Tensor sparse_softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return softmax(self, dim, half_to_float, false);
}
at::Tensor sparse_log_softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return softmax(self, dim, half_to_float, true);
}
at::Tensor sparse_softmax_backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                                   const at::Tensor& self) {
  return softmax_backward(grad, output, dim, self, false);
}
at::Tensor sparse_log_softmax_backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                                       const at::Tensor& self) {
  return softmax_backward(grad, output, dim, self, true);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("add.out", &add_out);
  m.impl("mul.out", &mul_out);
  m.impl("_sparse_softmax", &sparse_softmax);
  m.impl("_sparse_log_softmax", &sparse_log_softmax);
  m.impl("_sparse_softmax_backward_data", &sparse_softmax_backward);
  m.impl("_sparse_log_softmax_backward_data", &sparse_log_softmax_backward);
}

}  // namespace torch_tpu::aten
