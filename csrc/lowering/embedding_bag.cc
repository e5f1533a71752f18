// embedding_bag: rows of a table summed, averaged or maximized over bags. The outputs beside the first have the dims
// that PyTorch documents for devices other than CPU; only the backward passes read them.
#include <algorithm>

#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

Value ones(Builder& b, ElementType type, int64_t n) { return constant(b, type, 1, {n}); }

// Which bag each of n indices is in: the number of bags that start at or before it, less one.
Value bags_of(Op& op, int64_t n, int64_t num_bags) {
  Builder& b = op.builder();
  const ElementType type = index_type(n);
  if (n == 0) return zeros(b, type, {0});
  Value offsets = slice(op.tensor("offsets"), {0}, {num_bags});
  Value bad = logical_or(less(offsets, constant_like(offsets, 0)), greater(offsets, constant_like(offsets, n)));
  if (num_bags > 0) op.context().report_out_of_bounds(reduce_or(bad, {0}));
  Value starts = scatter_slices(zeros(b, type, {n}), 0, convert(offsets, type), ones(b, type, num_bags), add);
  return prefix_sum(starts) - ones(b, type, n);
}

// v with the rows of the padding index replaced by `fill`.
Value without_padding(Value v, Value index, int64_t padding, Value fill) {
  if (padding < 0) return v;
  Value skipped = equal(index, constant_like(index, padding));
  return select(broadcast_in_dim(skipped, v.dims(), {0}), like(v, fill), v);
}

Value by_row(Value rows, Value v) { return broadcast_in_dim(v, rows.dims(), {0}); }

Results embedding_bag(Op& op) {
  Builder& b = op.builder();
  Value weight = op.tensor("weight");
  const ElementType element = weight.element(), type = opmath_type(element);
  const ElementType index_element = promote(op.element("indices"), op.element("offsets"));
  const int64_t mode = op.integer("mode"), padding = op.integer("padding_idx"), width = weight.dim(1);
  const int64_t n = op.type("indices").numel(), num_offsets = op.type("offsets").numel();
  if (op.boolean("include_last_offset") && num_offsets < 1)
    throw CallError("include_last_offset: numBags should be at least 1");
  const int64_t num_bags = num_offsets - (op.boolean("include_last_offset") ? 1 : 0);
  Value index = checked_index(op, op.tensor("indices"), weight.dim(0), IndexRule::kReject);
  Value bags = bags_of(op, n, num_bags);
  const Dims result_dims{num_bags, width};
  if (n == 0 || num_bags == 0 || width == 0) {
    return {zeros(b, element, result_dims), convert(bags, index_element), zeros(b, index_element, {num_offsets}),
            mode == kMax ? zeros(b, index_element, result_dims) : zeros(b, index_element, {0})};
  }
  Value rows = convert(take(weight, index, 0), type);
  Value zero = constant(b, type, 0), none = constant(b, bags.element(), 0);
  Value counted = without_padding(ones(b, bags.element(), n), index, padding, none);
  Value size = scatter_slices(zeros(b, bags.element(), {num_bags}), 0, bags, counted, add);
  Value bag_size = convert(pad(size, none, {0}, {num_offsets - num_bags}), index_element);
  Value offset2bag = convert(bags, index_element);
  if (mode != kMax) {
    if (op.has("per_sample_weights")) rows = rows * by_row(rows, op.tensor("per_sample_weights", type));
    rows = without_padding(rows, index, padding, zero);
    Value sum = scatter_slices(zeros(b, type, result_dims), 0, bags, rows, add);
    if (mode == kMean) sum = sum / by_row(sum, convert(maximum(size, constant_like(size, 1)), type));
    return {convert(sum, element), offset2bag, bag_size, zeros(b, index_element, {0})};
  }
  Value bottom = lowest(b, type);
  rows = without_padding(rows, index, padding, bottom);
  Value top = scatter_slices(lowest(b, type, result_dims), 0, bags, rows, maximum);
  // The first row of a bag that attains the maximum.
  Value position = broadcast_in_dim(iota(b, bags.element(), {n}, 0), rows.dims(), {0});
  Value attains = equal(rows, take(top, bags, 0));
  attains = without_padding(attains, index, padding, constant(b, ElementType::kPred, false));
  position = select(attains, position, constant_like(position, n - 1));
  Value first = scatter_slices(constant(b, bags.element(), n - 1, result_dims), 0, bags, position, minimum);
  Value filled = by_row(top, greater(size, constant_like(size, 0)));
  Value winner = convert(take(index, first, 0), index_element);
  return {convert(select(filled, top, constant_like(top, 0)), element), offset2bag, bag_size,
          select(filled, winner, constant_like(winner, 0))};
}

// The gradient by the table. `bags` has one entry an index.
Value table_gradient(Op& op, Value bags) {
  Builder& b = op.builder();
  const ElementType element = op.element("grad"), type = opmath_type(element);
  const int64_t num_weights = op.integer("num_weights"), mode = op.integer("mode");
  const int64_t padding = op.integer("padding_idx"), n = op.type("indices").numel();
  Value grad = op.tensor("grad", type);
  const int64_t num_bags = grad.dim(0), width = grad.dim(1);
  Value table = zeros(b, type, {num_weights, width});
  if (n == 0 || grad.numel() == 0 || num_weights == 0) return convert(table, element);
  const ElementType it = index_type(num_weights);
  Value size = slice(op.tensor("bag_size"), {0}, {std::min(num_bags, op.type("bag_size").numel())});
  if (mode == kMax) {
    // Empty bags point at no row.
    Value winner = convert(op.tensor("maximum_indices"), it);
    Value filled = by_row(winner, greater(size, constant_like(size, 0)));
    winner = select(filled, winner, constant_like(winner, num_weights));
    return convert(scatter_elements(table, 0, winner, grad, add), element);
  }
  Value index = convert(op.tensor("indices"), it);
  if (padding >= 0)
    index = select(equal(index, constant_like(index, padding)), constant_like(index, num_weights), index);
  if (mode == kMean) grad = grad / by_row(grad, convert(maximum(size, constant_like(size, 1)), type));
  Value rows = take(grad, bags, 0);
  if (op.has("per_sample_weights")) rows = rows * by_row(rows, op.tensor("per_sample_weights", type));
  if (op.boolean("scale_grad_by_freq")) {
    Value counts = scatter_slices(zeros(b, type, {num_weights}), 0, index, ones(b, type, n), add);
    rows = rows / by_row(rows, take(counts, index, 0));
  }
  return convert(scatter_slices(table, 0, index, rows, add), element);
}

Value given_bags(Op& op, int64_t num_bags) {
  if (op.type("offset2bag").numel() == op.type("indices").numel()) return op.tensor("offset2bag");
  // CPU's fast path leaves offset2bag empty.
  return bags_of(op, op.type("indices").numel(), std::min(num_bags, op.type("offsets").numel()));
}

Value embedding_bag_dense_backward(Op& op) { return table_gradient(op, op.tensor("offset2bag")); }

Value embedding_bag_backward(Op& op) {
  if (op.boolean("sparse")) throw Unsupported("sparse gradients");
  return table_gradient(op, given_bags(op, op.dims("grad").at(0)));
}

Value per_sample_weights_backward(Op& op) {
  const ElementType element = op.element("grad"), type = opmath_type(element);
  Value grad = op.tensor("grad", type), weight = op.tensor("weight", type);
  const int64_t n = op.type("indices").numel();
  if (op.integer("mode") != kSum)
    throw CallError("embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  if (n == 0 || grad.numel() == 0) return zeros(op.builder(), element, {n});
  Value index = convert(op.tensor("indices"), index_type(weight.dim(0)));
  Value dot = reduce_sum(take(grad, given_bags(op, grad.dim(0)), 0) * take(weight, index, 0), {1});
  return convert(without_padding(dot, index, op.integer("padding_idx"), constant(op.builder(), type, 0)), element);
}

}  // namespace

void register_embedding_bag(Registry& r) {
  r.add("_embedding_bag", embedding_bag);
  r.add("_embedding_bag_forward_only", embedding_bag);
  r.add("_embedding_bag_backward", embedding_bag_backward);
  r.add("_embedding_bag_dense_backward", embedding_bag_dense_backward);
  r.add("_embedding_bag_per_sample_weights_backward", per_sample_weights_backward);
}

}  // namespace torch_tpu::lowering
