// Matrix products. Each is one plain 2-D or batched 3-D dot, which both backends run best.
#include "lowering/contraction.h"
#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

Value mm(Op& op) { return matrix_product(op, op.tensor("self"), op.tensor("mat2")); }
Value bmm(Op& op) { return batch_product(op, op.tensor("self"), op.tensor("mat2")); }
Value mv(Op& op) { return contract(op, op.tensor("self"), op.tensor("vec"), {{}, {}, {1}, {0}}); }

Value dot(Op& op) { return contract(op, op.tensor("self"), op.tensor("tensor"), {{}, {}, {0}, {0}}); }

Value vdot(Op& op) {
  Value x = op.tensor("self");
  if (is_complex(x.element())) x = complex(real(x), negate(imag(x)));
  return contract(op, x, op.tensor("other"), {{}, {}, {0}, {0}});
}

// beta * self + alpha * product, in the product's type. beta == 0 ignores self, NaN and all.
Value scaled_sum(Op& op, Value product) {
  const ElementType t = product.element();
  Value result = product;
  if (!op.scalar_equals("alpha", 1)) result = multiply(product, like(product, op.scalar("alpha", t)));
  if (op.scalar_equals("beta", 0)) return result;
  Value self = like(product, op.tensor("self", t));
  if (op.scalar_equals("beta", 1)) return add(self, result);
  Value beta = op.scalar("beta", t);
  Value sum = add(multiply(self, like(product, beta)), result);
  return select(equal(beta, constant(op.builder(), t, 0)), result, sum);
}

Value addmm(Op& op) { return scaled_sum(op, matrix_product(op, op.tensor("mat1"), op.tensor("mat2"))); }
Value baddbmm(Op& op) { return scaled_sum(op, batch_product(op, op.tensor("batch1"), op.tensor("batch2"))); }
Value addmv(Op& op) { return scaled_sum(op, contract(op, op.tensor("mat"), op.tensor("vec"), {{}, {}, {1}, {0}})); }

Value addbmm(Op& op) {
  return scaled_sum(op, contract(op, op.tensor("batch1"), op.tensor("batch2"), {{}, {}, {0, 2}, {0, 1}}));
}

Value addr(Op& op) {
  const ElementType t = common_type(op, {"self", "vec1", "vec2"});
  const ElementType compute = opmath_type(t);
  const Dims dims{op.dims("vec1").at(0), op.dims("vec2").at(0)};
  Value x = broadcast_in_dim(op.tensor("vec1", compute), dims, {0});
  Value y = broadcast_in_dim(op.tensor("vec2", compute), dims, {1});
  if (!is_bool(t)) return scaled_sum(op, multiply(x, y));
  Value product = logical_and(logical_and(x, y), broadcast_to(op.scalar("alpha", t), dims));
  Value self = broadcast_to(op.tensor("self", t), dims);
  return logical_or(logical_and(self, broadcast_to(op.scalar("beta", t), dims)), product);
}

Value addmm_activation(Op& op) {
  Value x = addmm(op);
  if (!op.boolean("use_gelu")) return maximum(x, constant_like(x, 0));
  // As the CPU kernel: the exact gelu of the sum rounded to the result's type.
  x = convert(convert(x, op.element("mat1")), opmath_type(op.element("mat1")));
  Value half = multiply(x, constant_like(x, 0.5));
  return multiply(half, add(erf(multiply(x, constant_like(x, 0.70710678118654752440))), constant_like(x, 1)));
}

Value int_mm(Op& op) {
  Value x = op.tensor("self"), y = op.tensor("mat2");
  if (op.target().is_cpu()) return matrix_product(op, x, y);
  return dot_general(x, y, {{}, {}, {1}, {0}}, DotPrecision::kDefault, ElementType::kS32);
}

// The overloads with out_dtype: reduced floats in, f32 out.
Value mm_dtype(Op& op) { return convert(mm(op), *op.dtype("out_dtype")); }
Value bmm_dtype(Op& op) { return convert(bmm(op), *op.dtype("out_dtype")); }
Value addmm_dtype(Op& op) { return convert(addmm(op), *op.dtype("out_dtype")); }
Value baddbmm_dtype(Op& op) { return convert(baddbmm(op), *op.dtype("out_dtype")); }

// x with its dimension of size 3 rotated: result[i] = x[(i + shift) % 3].
Value rotate3(Value x, int64_t dim, int64_t shift) {
  const Value parts[2] = {slice_dim(x, dim, shift, 3), slice_dim(x, dim, 0, shift)};
  return concatenate(parts, dim);
}

Value linalg_cross(Op& op) {
  const ElementType t = common_type(op, {"self", "other"});
  const ElementType compute = opmath_type(t);
  Value x = op.tensor("self", compute), y = op.tensor("other", compute);
  broadcast_all({&x, &y});
  const int64_t dim = wrap_dim(op.integer("dim"), x.rank());
  return convert(
      subtract(multiply(rotate3(x, dim, 1), rotate3(y, dim, 2)), multiply(rotate3(x, dim, 2), rotate3(y, dim, 1))), t);
}

}  // namespace

void register_matmul(Registry& r) {
  r.add("mm", mm);
  r.add("bmm", bmm);
  r.add("mv", mv);
  r.add("dot", dot);
  r.add("vdot", vdot);
  r.add("addmm", addmm);
  r.add("baddbmm", baddbmm);
  r.add("addbmm", addbmm);
  r.add("addmv", addmv);
  r.add("addr", addr);
  r.add("_addmm_activation", addmm_activation);
  r.add("_int_mm", int_mm);
  r.add("mm.dtype", mm_dtype);
  r.add("bmm.dtype", bmm_dtype);
  r.add("addmm.dtype", addmm_dtype);
  r.add("baddbmm.dtype", baddbmm_dtype);
  r.add("linalg_cross", linalg_cross);
  register_triangular(r);
  register_quantized_matmul(r);
}

}  // namespace torch_tpu::lowering
