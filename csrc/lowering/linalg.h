// Batches of matrices: what the linear algebra families share. Values here are [batch, rows, columns], made by
// as_matrices; loops run over all matrices of a batch at once, so every step is a few wide operations.
#pragma once

#include <functional>

#include "lowering/helpers.h"
#include "lowering/math.h"

namespace torch_tpu::lowering {

// [..., m, n] as [batch, m, n], and back.
Value as_matrices(Value x);
Dims batch_of(const Dims& dims);               // without the last two
Value with_batch(Value x, const Dims& batch);  // the first dimension of x becomes `batch`
// Batch dims of `a` and `b` broadcast against each other; the last two dims of each stay.
void broadcast_batches(Value& a, Value& b);

Value transpose_matrix(Value x);                            // the last two dims, of any rank
Value adjoint(Value x);                                     // conjugate transpose
Value row_index(Value like);                                // s32 of like's dims: the index along the last dim but one
Value column_index(Value like);                             // along the last
Value triangle(Value x, bool lower, int64_t diagonal = 0);  // zeros outside the triangle; `diagonal` as torch.tril
Value identity_matrices(Builder& b, ElementType type, int64_t batch, int64_t rows, int64_t columns);
Value diagonal_of(Value x);       // [batch, min(m, n)]
Value product(Value a, Value b);  // full precision
Value conjugate_of(Value x);      // of a real value: itself
Value squared_modulus(Value x);   // real
Value any_nan(Value x);           // rank 0
// x with the real factor or divisor `r` of x's dims.
Value scale(Value x, Value r);
Value to_type(Value real, ElementType type);  // a real value as `type`, which may be complex

// Column j, row j of each matrix as [batch, m, 1] and [batch, 1, n]; j is a rank-0 s32.
Value column_at(Value x, Value j);
Value row_at(Value x, Value j);
Value element_at(Value x, Value i, Value j);  // [batch, 1, 1]
Value expand(Value x, const Value& like);     // size-1 dims of x broadcast to like's

// Rows picked by indices s32 [batch, k]: [batch, k, n].
Value take_rows(Value x, Value indices);

// for (j = first; j != last; j += step) state = body(j, state), j a rank-0 s32; step is 1 or -1.
using LoopBody = std::function<std::vector<Value>(Value, std::span<const Value>)>;
std::vector<Value> counted_loop(std::vector<Value> state, int64_t first, int64_t last, const LoopBody& body);
Value s32(Builder& b, int64_t value, const Dims& dims = {});

// a^-1 b for triangular a (left) or b a^-1; nothing to do where b is empty.
Value solve_triangular(Value a, Value b, bool left, bool lower, bool unit_diagonal,
                       stablehlo::Transpose transpose_a = stablehlo::Transpose::kNone);

// LAPACK's getrf on [batch, m, n]: rows are interchanged so that the largest |re| + |im| is the pivot.
struct LuFactors {
  Value lu;           // L below the diagonal, U on and above it
  Value pivots;       // s32 [batch, min(m, n)], counted from 1: the row that step i interchanged with row i
  Value permutation;  // s32 [batch, m]: row i of L U is row permutation[i] of the matrix
  Value info;         // s32 [batch]: 0, or 1 + the first step whose pivot is zero
};
LuFactors factor_lu(Value a);
// The permutation of `pivots`, or its inverse: s32 [batch, m].
Value permutation_of(Value pivots, int64_t m, bool inverse);
// X of A X = B, or of A^H X = B, from the factors and s32 permutations of A. All have one batch.
Value solve_lu(Value lu, Value pivots, Value b, bool adjoint_of_a);

// LAPACK's geqrf on [batch, m, n]: R on and above the diagonal, reflectors H_i = I - tau_i v_i v_i^H below it.
struct QrFactors {
  Value a;
  Value tau;  // [batch, min(m, n)]
};
QrFactors factor_qr(Value a);
// (H_1 ... H_k) c, or its adjoint times c, for reflectors [batch, m, >= k], tau [batch, k], c [batch, m, p].
Value apply_reflectors(Value reflectors, Value tau, Value c, bool adjoint_of_q);
// The first `columns` columns of H_1 ... H_k.
Value form_q(Value reflectors, Value tau, int64_t columns);

// Eigenvalues in ascending order (real, [batch, n]) and, where wanted, eigenvectors as columns, of Hermitian matrices.
struct Eigh {
  Value values, vectors;
};
Eigh eigh(Value a, bool want_vectors);

// Singular values in descending order [batch, min(m, n)]; where wanted U [batch, m, k or m] and V^H.
struct Svd {
  Value u, s, vh;
};
Svd svd(Value a, bool full_matrices, bool want_vectors);

}  // namespace torch_tpu::lowering
