// Rows of several sequences, packed one after the other (jagged), and the padded form of them.
#include "lowering/helpers.h"
#include "lowering/indexing.h"
#include "lowering/registry.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

// [batches, longest, ...] from rows and the offsets at which each sequence begins; sequences that are longer are cut.
Value jagged_to_padded(Op& op) {
  if (op.list_size("offsets") != 1)
    throw Unsupported("_jagged_to_padded_dense_forward: one jagged dim is supported, got offsets of " +
                      std::to_string(op.list_size("offsets")) + " dims. Pad dim by dim.");
  Value values = op.tensor("values"), offsets = op.tensors("offsets").front();
  offsets = convert(offsets, kS64);
  const int64_t batches = offsets.numel() - 1, longest = op.integers("max_lengths").at(0);
  Dims dims = values.dims();
  dims[0] = longest;
  dims.insert(dims.begin(), batches);
  Value padding = broadcast_to(op.scalar("padding_value", values.element()), dims);
  if (values.numel() == 0 || padding.numel() == 0) return padding;
  const Dims grid{batches, longest};
  Value begin = broadcast_in_dim(slice_dim(offsets, 0, 0, batches), grid, {0});
  Value end = broadcast_in_dim(slice_dim(offsets, 0, 1, batches + 1), grid, {0});
  Value row = begin + iota(op.builder(), kS64, grid, 1);
  Value rows = take(values, minimum(row, constant_like(row, values.dim(0) - 1)), 0);
  return select(broadcast_in_dim(less(row, end), dims, {0, 1}), rows, padding);
}

// The first `total` rows of the sequences, one after the other; zeros where a sequence is longer than the padded dim.
Value padded_to_jagged(Op& op) {
  Value dense = op.tensor("dense"), offsets = op.tensor("offsets", kS64);
  const int64_t total = op.integer("total"), longest = dense.dim(1), bounds = offsets.numel();
  Dims dims(dense.dims().begin() + 1, dense.dims().end());
  dims[0] = total;
  Value zero = zeros(op.builder(), dense.element(), dims);
  if (zero.numel() == 0 || dense.numel() == 0) return zero;
  Value row = iota(op.builder(), kS64, {total}, 0);
  Value found = search_rows(reshape(offsets, {1, bounds}), reshape(row, {1, total}), /*right=*/true,
                            /*nan_is_largest=*/false);
  Value sequence = convert(reshape(found, {total}), kS64) - constant_like(row, 1);
  sequence = clamp(constant(op.builder(), kS64, 0), sequence, constant(op.builder(), kS64, dense.dim(0) - 1));
  Value place = row - take(offsets, sequence, 0);
  Dims flat(dims);
  flat[0] = dense.dim(0) * longest;
  Value rows = take(reshape(dense, flat),
                    sequence * constant_like(row, longest) + minimum(place, constant_like(place, longest - 1)), 0);
  return select(broadcast_in_dim(less(place, constant_like(place, longest)), dims, {0}), rows, zero);
}

}  // namespace

void register_jagged(Registry& r) {
  r.add("_jagged_to_padded_dense_forward", jagged_to_padded);
  r.add_internal("tpu.padded_to_jagged", padded_to_jagged);
}

}  // namespace torch_tpu::lowering
