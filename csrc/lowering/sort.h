// Sorting and searching helpers that several families share. ATen's order: NaN is the largest value.
#pragma once

#include "lowering/op.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {

struct Sorted {
  Value values;
  Value indices;  // positions along the dim before the sort, of index_type(size)
};
// Stable; x has rank >= 1.
Sorted sort_with_indices(Value x, int64_t dim, bool descending);

// Binary search in each row of `sequence` [rows, n] for `values` [rows, m], both of one type: the number of leading
// elements that come before the value, as index_type(rows * n). `right` also passes the elements equal to it.
// `nan_is_largest` takes NaN for the largest value; otherwise comparisons are ATen's !(element >= value).
Value search_rows(Value sequence, Value values, bool right, bool nan_is_largest);

}  // namespace torch_tpu::lowering
