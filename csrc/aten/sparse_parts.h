// What the sparse kernels share: the dense parts of a COO tensor, and the programs that work on its indices. A kernel
// here is a composition of dense ops on those parts; sizes that depend on values cost one host read.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "aten/buckets.h"

namespace torch_tpu::aten {

// Which entries of a COO tensor have equal coordinates.
struct Groups {
  at::Tensor table;       // as the lowering tpu.group_indices has it, for the ops that take it whole
  at::Tensor order;       // a stable order that sorts the entries by coordinates
  at::Tensor run;         // for each place in that order the number of its group
  int64_t count() const;  // of groups; waits for the device
};

// Calls one of this project's own lowerings by its schema; arguments are IValues or convert to them.
at::Tensor run_internal_stack(const char* schema, std::vector<c10::IValue> arguments);
template <typename... Arguments>
at::Tensor run_internal(const char* schema, const Arguments&... arguments) {
  return run_internal_stack(schema, {c10::IValue(arguments)...});
}

// `indices` [sparse dims, entries] as one number an entry. `sizes` are those of the sparse dims.
at::Tensor flat_indices(const at::Tensor& indices, at::IntArrayRef sizes);
Groups group_indices(const at::Tensor& indices, at::IntArrayRef sizes);
// Positions of `queries` in the ascending `keys`, or -1. Both have elements.
at::Tensor find_sorted(const at::Tensor& keys, const at::Tensor& queries);

inline at::IntArrayRef sparse_sizes(const at::Tensor& coo) { return coo.sizes().slice(0, coo.sparse_dim()); }
inline at::IntArrayRef dense_sizes(const at::Tensor& coo) { return coo.sizes().slice(coo.sparse_dim()); }
// `first`, then the sizes of the dense dims.
std::vector<int64_t> values_sizes(int64_t first, const at::Tensor& coo);
int64_t product(at::IntArrayRef sizes);

// A COO tensor of these parts, without checks. `indices` are int64.
at::Tensor make_coo(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes, bool coalesced);
// One without entries.
at::Tensor empty_coo(int64_t sparse_dim, at::IntArrayRef sizes, const at::TensorOptions& dense_options);

// `source`'s values at the coordinates of `indices`, zero where it has none. `source` is sorted (coalesced).
at::Tensor values_at(const at::Tensor& source, const at::Tensor& indices);

// Several ranges [begin, end) one after the other, padded up to a bucket by repeats of the last element.
struct ExpandedRanges {
  int64_t count;       // without the padding
  at::Tensor range;    // which range each element is of
  at::Tensor place;    // what it is
  at::Tensor padding;  // bool
};
// `begin` has elements. Waits for the device.
ExpandedRanges expand_ranges(const at::Tensor& begin, const at::Tensor& end);

// Makes `result`, a sparse tensor, hold what `coo` does, converted to its dtype.
at::Tensor& assign_coo(at::Tensor& result, const at::Tensor& coo);
// A dense `result` gets the size and the values of `value`.
at::Tensor& assign_dense(at::Tensor& result, const at::Tensor& value);

// Rows of `dense` weighted by the entries of a matrix: [rows, columns of dense].
at::Tensor sparse_times_dense(const at::Tensor& indices, const at::Tensor& values, const at::Tensor& dense,
                              int64_t rows);

}  // namespace torch_tpu::aten
