#include "aten/sparse_parts.h"

#include <ATen/native/Resize.h>
#include <ATen/native/SparseTensorUtils.h>

#include <limits>

#include "aten/op_entry.h"

namespace torch_tpu::aten {

at::Tensor run_internal_stack(const char* schema, std::vector<c10::IValue> arguments) {
  torch::jit::Stack stack(std::move(arguments));
  run_entry(internal_entry(schema), &stack);
  return stack.back().toTensor();
}

int64_t Groups::count() const { return run.select(0, run.size(0) - 1).item<int64_t>() + 1; }

at::Tensor flat_indices(const at::Tensor& indices, at::IntArrayRef sizes) {
  return run_internal("tpu::flatten_indices(Tensor indices, int[] sizes) -> Tensor", indices, sizes);
}

Groups group_indices(const at::Tensor& indices, at::IntArrayRef sizes) {
  Groups g;
  g.table = run_internal("tpu::group_indices(Tensor indices, int[] sizes) -> Tensor", indices, sizes);
  g.order = g.table.select(0, 0);
  g.run = g.table.select(0, 1);
  return g;
}

at::Tensor find_sorted(const at::Tensor& keys, const at::Tensor& queries) {
  return run_internal("tpu::find_sorted(Tensor keys, Tensor queries) -> Tensor", keys, queries);
}

std::vector<int64_t> values_sizes(int64_t first, const at::Tensor& coo) {
  std::vector<int64_t> sizes{first};
  for (const int64_t s : dense_sizes(coo)) sizes.push_back(s);
  return sizes;
}

int64_t product(at::IntArrayRef sizes) { return c10::multiply_integers(sizes); }

at::Tensor make_coo(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes, bool coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(indices.size(0), values.dim() - 1, sizes, indices, values,
                                                      values.options().layout(at::kSparse), coalesced);
}

at::Tensor empty_coo(int64_t sparse_dim, at::IntArrayRef sizes, const at::TensorOptions& dense_options) {
  std::vector<int64_t> value_sizes{0};
  for (const int64_t s : sizes.slice(sparse_dim)) value_sizes.push_back(s);
  return make_coo(at::empty({sparse_dim, 0}, dense_options.dtype(at::kLong)), at::empty(value_sizes, dense_options),
                  sizes, true);
}

at::Tensor values_at(const at::Tensor& source, const at::Tensor& indices) {
  const int64_t entries = indices.size(1);
  if (source._nnz() == 0 || entries == 0) return at::zeros(values_sizes(entries, source), source._values().options());
  const at::Tensor place =
      find_sorted(flat_indices(source._indices(), sparse_sizes(source)), flat_indices(indices, sparse_sizes(source)));
  const at::Tensor found = source._values().index_select(0, place.clamp_min(0));
  std::vector<int64_t> mask_sizes(static_cast<size_t>(found.dim()), 1);
  mask_sizes[0] = entries;
  return found.masked_fill(place.lt(0).view(mask_sizes), 0);
}

ExpandedRanges expand_ranges(const at::Tensor& begin, const at::Tensor& end) {
  const at::Tensor lengths = end - begin, ends = lengths.cumsum(0);
  ExpandedRanges e;
  e.count = ends.select(0, ends.size(0) - 1).item<int64_t>();
  if (e.count == 0) return e;
  const at::Tensor number = at::arange(bucket(e.count, std::numeric_limits<int64_t>::max()), ends.options());
  const at::Tensor clamped = number.clamp_max(e.count - 1);
  e.range = at::searchsorted(ends, clamped, /*out_int32=*/false, /*right=*/true);
  e.place = clamped + (begin - (ends - lengths)).index_select(0, e.range);
  e.padding = number.ge(e.count);
  return e;
}

at::Tensor& assign_coo(at::Tensor& result, const at::Tensor& coo) {
  TORCH_CHECK(result.is_sparse(), "expected a result of layout torch.sparse_coo, got ", result.layout());
  if (at::sparse::is_same_tensor(result, coo)) return result;
  auto* impl = at::sparse::get_sparse_impl(result);
  impl->raw_resize_(coo.sparse_dim(), coo.dense_dim(), coo.sizes());
  impl->set_indices_and_values_unsafe(coo._indices(), coo._values().to(result.scalar_type()));
  impl->set_coalesced(coo.is_coalesced());
  return result;
}

at::Tensor& assign_dense(at::Tensor& result, const at::Tensor& value) {
  at::native::resize_output(result, value.sizes());
  return result.copy_(value);
}

at::Tensor sparse_times_dense(const at::Tensor& indices, const at::Tensor& values, const at::Tensor& dense,
                              int64_t rows) {
  return run_internal("tpu::sparse_times_dense(Tensor indices, Tensor values, Tensor dense, int rows) -> Tensor",
                      indices, values, dense, rows);
}

}  // namespace torch_tpu::aten
