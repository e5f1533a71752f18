// Embedding tables: lookup, gradient, renormalization.
#include <cmath>

#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

Value embedding(Op& op) {
  Value weight = op.tensor("weight");
  if (weight.rank() != 2) throw CallError("'weight' must be 2-D");
  Value index = checked_index(op, op.tensor("indices"), weight.dim(0), IndexRule::kReject);
  Dims dims = index.dims();
  dims.push_back(weight.dim(1));
  if (index.numel() == 0 || weight.dim(1) == 0) return zeros(op.builder(), weight.element(), dims);
  return take(weight, index, 0);
}

// A scatter of rows with add. The forward pass has checked the range; what is out of it is skipped, which is also how
// padding_idx drops its rows.
Value embedding_dense_backward(Op& op) {
  const int64_t num_weights = op.integer("num_weights"), padding = op.integer("padding_idx");
  const ElementType element = op.element("grad_output"), type = opmath_type(element);
  Builder& b = op.builder();
  Value index = flatten(op.tensor("indices"));
  const int64_t n = index.numel(), width = op.dims("grad_output").back();
  Value table = zeros(b, type, {num_weights, width});
  if (n == 0 || width == 0 || num_weights == 0) return convert(table, element);
  index = convert(index, index_type(num_weights));
  if (padding >= 0)
    index = select(equal(index, constant_like(index, padding)), constant_like(index, num_weights), index);
  Value grad = reshape(op.tensor("grad_output", type), {n, width});
  if (op.boolean("scale_grad_by_freq")) {
    Value counts = scatter_slices(zeros(b, type, {num_weights}), 0, index, constant(b, type, 1, {n}), add);
    grad = grad / broadcast_in_dim(take(counts, index, 0), grad.dims(), {0});
  }
  return convert(scatter_slices(table, 0, index, grad, add), element);
}

// ||row||_p of each row.
Value row_norms(Value rows, double p) {
  Value a = abs(rows);
  if (std::isinf(p)) return p > 0 ? reduce_max(a, {1}) : reduce_min(a, {1});
  if (p == 0) return reduce_sum(convert(not_equal(a, constant_like(a, 0)), a.element()), {1});
  if (p == 1) return reduce_sum(a, {1});
  if (p == 2) return sqrt(reduce_sum(a * a, {1}));
  Value sum = reduce_sum(power(a, constant_like(a, p)), {1});
  return power(sum, constant_like(sum, 1 / p));
}

// Rows that occur several times are written several times with one value.
Value embedding_renorm(Op& op) {
  Value self = op.tensor("self");
  const ElementType type = opmath_type(self.element());
  Value index = flatten(checked_index(op, op.tensor("indices"), self.dim(0), IndexRule::kReject));
  if (index.numel() == 0 || self.numel() == 0) return self;
  Value rows = convert(take(self, index, 0), type);
  Value norms = row_norms(rows, op.constant_real("norm_type"));
  Value limit = like(norms, op.scalar("max_norm", type));
  Value scale = select(greater(norms, limit), limit / (norms + constant_like(norms, 1e-7)), constant_like(norms, 1));
  rows = rows * broadcast_in_dim(scale, rows.dims(), {0});
  return scatter_slices(self, 0, index, convert(rows, self.element()), keep_update);
}

}  // namespace

void register_embedding(Registry& r) {
  r.add("embedding", embedding);
  r.add("embedding_dense_backward", embedding_dense_backward);
  r.add("embedding_renorm", embedding_renorm).structural({"norm_type"});
  register_embedding_bag(r);
}

}  // namespace torch_tpu::lowering
