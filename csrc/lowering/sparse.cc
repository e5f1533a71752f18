// Programs behind sparse tensors. The ATen bridge (csrc/aten/sparse_*.cc) calls the internal ones on the dense parts of
// a sparse tensor: `indices` [sparse dims, nnz], `values` [nnz, dense dims...].
#include "lowering/indexing.h"
#include "lowering/math.h"
#include "lowering/registry.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

// One number for each column of `indices`, in the order of the coordinates.
Value flatten_coordinates(Value indices, const Dims& sizes) {
  const int64_t count = indices.dim(1);
  Value flat = constant(indices.builder(), kS64, 0, {count});
  for (int64_t d = 0; d < indices.dim(0); ++d) {
    flat = flat * constant_like(flat, sizes.at(static_cast<size_t>(d)));
    flat = flat + reshape(slice_dim(indices, 0, d, d + 1), {count});
  }
  return flat;
}

Value flatten_indices(Op& op) { return flatten_coordinates(op.tensor("indices", kS64), op.integers("sizes")); }

// [2, nnz]: the stable order that sorts the columns, and for each place in that order the number of its run of equal
// columns. The last run's number tells how many there are.
Value group_indices(Op& op) {
  Value flat = flatten_coordinates(op.tensor("indices", kS64), op.integers("sizes"));
  const int64_t n = flat.numel();
  const Sorted sorted = sort_with_indices(flat, 0, /*descending=*/false);
  Value first = constant(op.builder(), kPred, false, {1});
  Value differs = not_equal(slice_dim(sorted.values, 0, 1, n), slice_dim(sorted.values, 0, 0, n - 1));
  Value run = prefix_sum(convert(concatenate(std::vector<Value>{first, differs}, 0), kS64));
  return concatenate(
      std::vector<Value>{reshape(convert(sorted.indices, kS64), {1, n}), reshape(convert(run, kS64), {1, n})}, 0);
}

// Where each query stands in the ascending `keys`, the first of equal ones, or -1.
Value find_sorted(Op& op) {
  Value keys = op.tensor("keys", kS64), queries = op.tensor("queries", kS64);
  const int64_t n = keys.numel(), m = queries.numel();
  Value place = reshape(convert(search_rows(reshape(keys, {1, n}), reshape(queries, {1, m}), /*right=*/false,
                                            /*nan_is_largest=*/false),
                                kS64),
                        {m});
  place = minimum(place, constant_like(place, n - 1));
  return select(equal(take(keys, place, 0), queries), place, constant_like(place, -1));
}

Value row_of(Value indices, int64_t row) { return reshape(slice_dim(indices, 0, row, row + 1), {indices.dim(1)}); }

Value spread_rows(Value per_row, const Dims& dims) { return broadcast_in_dim(per_row, dims, {0}); }

// Sum over the entries of values[e] * dense[column[e], :], added to row[e] of `rows` rows.
Value sparse_times_dense(Op& op) {
  const ElementType type = op.element("values"), compute = opmath_type(type);
  Value indices = op.tensor("indices", kS64), values = op.tensor("values", compute);
  Value dense = op.tensor("dense", compute);
  Value result = zeros(op.builder(), compute, {op.integer("rows"), dense.dim(1)});
  if (values.numel() == 0 || dense.numel() == 0) return convert(result, type);
  Value picked = take(dense, row_of(indices, 1), 0);
  Value products = picked * spread_rows(values, picked.dims());
  return convert(scatter_slices(result, 0, row_of(indices, 0), products, add), type);
}

// The dot product of row[e] of `left` and column[e] of `right`, for each entry.
Value sampled_product(Op& op) {
  const ElementType type = op.element("left"), compute = opmath_type(type);
  Value indices = op.tensor("indices", kS64);
  Value left = op.tensor("left", compute), right = op.tensor("right", compute);
  if (left.numel() == 0 || right.numel() == 0) return zeros(op.builder(), type, {indices.dim(1)});
  Value products = take(left, row_of(indices, 0), 0) * take(transpose(right, {1, 0}), row_of(indices, 1), 0);
  return convert(reduce_sum(products, {1}), type);
}

// Which run each entry belongs to, from what group_indices returned.
Value run_of_entry(Op& op) {
  Value groups = op.tensor("groups", kS64);
  return scatter_slices(zeros(op.builder(), kS64, {groups.dim(1)}), 0, row_of(groups, 0), row_of(groups, 1),
                        keep_update);
}

// XLA's CPU backend loses a NaN update in a scatter by maximum.
Value keep_greater(Value old, Value update) {
  return select(logical_or(is_nan(old), greater(old, update)), old, update);
}

// (Log-)softmax over the entries of each run.
Value run_softmax(Op& op) {
  const ElementType type = op.element("values"), compute = opmath_type(type);
  Value values = op.tensor("values", compute), run = run_of_entry(op);
  const auto over_run = [&](Value base, Value updates, const Combine& combine) {
    return take(scatter_slices(base, 0, run, updates, combine), run, 0);
  };
  Value shifted = values - over_run(lowest(op.builder(), compute, values.dims()), values, keep_greater);
  Value power = exponential(shifted);
  Value sum = over_run(constant_like(power, 0), power, add);
  return convert(op.boolean("log") ? shifted - log(sum) : power / sum, type);
}

Value run_softmax_backward(Op& op) {
  const ElementType type = op.element("output"), compute = opmath_type(type);
  Value grad = op.tensor("grad", compute), output = op.tensor("output", compute), run = run_of_entry(op);
  const bool log = op.boolean("log");
  Value weighted = log ? grad : grad * output;
  Value sum = take(scatter_slices(constant_like(weighted, 0), 0, run, weighted, add), run, 0);
  return convert(log ? grad - exponential(output) * sum : output * (grad - sum), type);
}

// crow[i] is how many entries stand in rows before i.
Value coo_to_csr(Op& op) {
  Value rows = op.tensor("self", kS64);
  const int64_t n = rows.numel(), size = op.integer("size");
  const ElementType type = op.boolean("out_int32") ? kS32 : kS64;
  if (n == 0) return zeros(op.builder(), type, {size + 1});
  Value bounds = iota(op.builder(), kS64, {1, size + 1}, 1);
  Value found = search_rows(reshape(rows, {1, n}), bounds, /*right=*/false, /*nan_is_largest=*/false);
  return convert(reshape(found, {size + 1}), type);
}

// Batch coordinates, then row and column of each entry.
Value csr_to_coo(Op& op) {
  Value compressed = op.tensor("crow_indices", kS64), plain = op.tensor("col_indices", kS64);
  const ElementType type = op.boolean("out_int32") ? kS32 : kS64;
  const int64_t batch_rank = compressed.rank() - 1, entries = plain.dim(static_cast<int>(batch_rank));
  const int64_t n = plain.numel(), ends = compressed.dim(static_cast<int>(batch_rank));
  if (n == 0) return zeros(op.builder(), type, {batch_rank + 2, 0});
  const int64_t batches = n / entries;
  Value position = iota(op.builder(), kS64, {batches, entries}, 1);
  Value row = search_rows(reshape(compressed, {batches, ends}), position, /*right=*/true, /*nan_is_largest=*/false);
  row = convert(row, kS64) - constant(op.builder(), kS64, 1, {batches, entries});
  std::vector<Value> coordinates;
  for (int64_t d = 0; d < batch_rank; ++d)
    coordinates.push_back(reshape(iota(op.builder(), kS64, plain.dims(), d), {1, n}));
  coordinates.push_back(reshape(row, {1, n}));
  coordinates.push_back(reshape(plain, {1, n}));
  if (op.boolean("transpose")) std::swap(coordinates.back(), coordinates[coordinates.size() - 2]);
  return convert(concatenate(coordinates, 0), type);
}

}  // namespace

void register_sparse(Registry& r) {
  r.add_internal("tpu.flatten_indices", flatten_indices);
  r.add_internal("tpu.group_indices", group_indices);
  r.add_internal("tpu.find_sorted", find_sorted);
  r.add_internal("tpu.sparse_times_dense", sparse_times_dense);
  r.add_internal("tpu.sampled_product", sampled_product);
  r.add_internal("tpu.run_softmax", run_softmax);
  r.add_internal("tpu.run_softmax_backward", run_softmax_backward);
  r.add("_convert_indices_from_coo_to_csr", coo_to_csr);
  r.add("_convert_indices_from_csr_to_coo", csr_to_coo);
}

}  // namespace torch_tpu::lowering
