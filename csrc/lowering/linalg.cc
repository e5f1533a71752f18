#include "lowering/linalg.h"

#include "lowering/registry.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

Dims batch_of(const Dims& dims) { return Dims(dims.begin(), dims.end() - 2); }

Value as_matrices(Value x) {
  int64_t batch = 1;
  for (int64_t d : batch_of(x.dims())) batch *= d;
  return reshape(x, {batch, x.dims().end()[-2], x.dims().back()});
}

Value with_batch(Value x, const Dims& batch) {
  Dims dims = batch;
  dims.insert(dims.end(), x.dims().begin() + 1, x.dims().end());
  return reshape(x, dims);
}

void broadcast_batches(Value& a, Value& b) {
  Dims dims_a = broadcast_dims(batch_of(a.dims()), batch_of(b.dims())), dims_b = dims_a;
  dims_a.insert(dims_a.end(), a.dims().end() - 2, a.dims().end());
  dims_b.insert(dims_b.end(), b.dims().end() - 2, b.dims().end());
  a = broadcast_to(a, dims_a);
  b = broadcast_to(b, dims_b);
}

Value transpose_matrix(Value x) {
  Dims permutation = all_dims(x.rank());
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return stablehlo::transpose(x, permutation);
}

Value conjugate_of(Value x) { return is_complex(x.element()) ? complex(real(x), negate(imag(x))) : x; }
Value adjoint(Value x) { return conjugate_of(transpose_matrix(x)); }

Value row_index(Value like) { return iota(like.builder(), ElementType::kS32, like.dims(), like.rank() - 2); }
Value column_index(Value like) { return iota(like.builder(), ElementType::kS32, like.dims(), like.rank() - 1); }

Value triangle(Value x, bool lower, int64_t diagonal) {
  Value row = row_index(x), column = column_index(x);
  if (diagonal != 0) row = row + constant_like(row, diagonal);
  return select(lower ? greater_equal(row, column) : less_equal(row, column), x, constant_like(x, 0));
}

Value identity_matrices(Builder& b, ElementType type, int64_t batch, int64_t rows, int64_t columns) {
  const Dims dims{batch, rows, columns};
  return convert(equal(iota(b, ElementType::kS32, dims, 1), iota(b, ElementType::kS32, dims, 2)), type);
}

Value diagonal_of(Value x) {
  const int64_t k = std::min(x.dim(1), x.dim(2));
  x = slice(x, {0, 0, 0}, {x.dim(0), k, k});
  // One element a row: a masked sum is exact.
  return reduce_sum(select(equal(row_index(x), column_index(x)), x, constant_like(x, 0)), {2});
}

Value product(Value a, Value b) {
  if (a.dim(0) != 1) return dot_general(a, b, {{0}, {0}, {2}, {1}}, DotPrecision::kHighest);
  // XLA's CPU backend has a fast path for plain matrices only.
  Value c = dot_general(reshape(a, {a.dim(1), a.dim(2)}), reshape(b, {b.dim(1), b.dim(2)}), {{}, {}, {1}, {0}},
                        DotPrecision::kHighest);
  return reshape(c, {1, a.dim(1), b.dim(2)});
}

Value any_nan(Value x) { return any(is_nan(x)); }

Value squared_modulus(Value x) {
  if (!is_complex(x.element())) return x * x;
  return real(x) * real(x) + imag(x) * imag(x);
}

Value to_type(Value r, ElementType type) {
  return is_complex(type) ? complex(r, constant_like(r, 0)) : convert(r, type);
}

Value scale(Value x, Value r) { return is_complex(x.element()) ? complex(real(x) * r, imag(x) * r) : x * r; }

Value s32(Builder& b, int64_t value, const Dims& dims) { return constant(b, ElementType::kS32, value, dims); }

Value column_at(Value x, Value j) {
  Value zero = s32(x.builder(), 0);
  const Value starts[3] = {zero, zero, j};
  return dynamic_slice(x, starts, {x.dim(0), x.dim(1), 1});
}

Value row_at(Value x, Value j) {
  Value zero = s32(x.builder(), 0);
  const Value starts[3] = {zero, j, zero};
  return dynamic_slice(x, starts, {x.dim(0), 1, x.dim(2)});
}

Value element_at(Value x, Value i, Value j) {
  const Value starts[3] = {s32(x.builder(), 0), i, j};
  return dynamic_slice(x, starts, {x.dim(0), 1, 1});
}

Value expand(Value x, const Value& like) { return broadcast_to(x, like.dims()); }

Value take_rows(Value x, Value indices) {
  GatherDims g;
  g.offset_dims = {2};
  g.collapsed_slice_dims = g.start_index_map = {1};
  g.operand_batching_dims = g.start_indices_batching_dims = {0};
  g.index_vector_dim = 2;
  return gather(x, indices, g, {1, 1, x.dim(2)});
}

std::vector<Value> counted_loop(std::vector<Value> state, int64_t first, int64_t last, const LoopBody& body) {
  Builder& b = state[0].builder();
  const int64_t step = first <= last ? 1 : -1;
  state.insert(state.begin(), s32(b, first));
  state = while_loop(
      state, [&](std::span<const Value> s) { return not_equal(s[0], s32(b, last)); },
      [&](std::span<const Value> s) {
        std::vector<Value> next = body(s[0], s.subspan(1));
        next.insert(next.begin(), s[0] + s32(b, step));
        return next;
      });
  state.erase(state.begin());
  return state;
}

Value solve_triangular(Value a, Value b, bool left, bool lower, bool unit_diagonal, Transpose transpose_a) {
  if (b.numel() == 0) return b;
  return triangular_solve(a, b, left, lower, unit_diagonal, transpose_a);
}

void register_linalg(Registry& r) {
  register_linalg_lu(r);
  register_linalg_qr(r);
  register_linalg_spectral(r);
  register_linalg_eig(r);
  register_linalg_exp(r);
  register_linalg_ldl(r);
}

}  // namespace torch_tpu::lowering
