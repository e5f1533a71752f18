// Products with quantized weights: 8-bit floats with scales, 8-bit and packed 4-bit integers.
#include "lowering/contraction.h"
#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

// (x * scale_a) (y * scale_b) + bias, over scale_result where the result has 8 bits. Scales are single or one a row of
// x and one a column of y.
Value scaled_mm(Op& op) {
  Value product =
      dot_general(op.tensor("self", kF32), op.tensor("mat2", kF32), {{}, {}, {1}, {0}}, DotPrecision::kHighest);
  const auto scale = [&](std::string_view arg) {
    Value s = op.tensor(arg, kF32);
    return broadcast_to(s.numel() == 1 ? reshape(s, {}) : s, product.dims());
  };
  Value y = product * scale("scale_a") * scale("scale_b");
  if (op.has("bias")) y = y + broadcast_to(op.tensor("bias", kF32), y.dims());
  const ElementType result = *op.dtype("dtype");
  if (op.has("scale_result") && is_float8(result)) y = y / scale("scale_result");
  return convert(y, result);
}

// Weights [n, k] of int8 with one scale a row.
Value weight_int8pack_mm(Op& op) {
  const ElementType t = op.element("self");
  Value y = contract(op, op.tensor("self"), op.tensor("mat2", t), {{}, {}, {1}, {1}});
  return convert(y * broadcast_to(op.tensor("scales", y.element()), y.dims()), t);
}

// ATen's layout for CPUs with 512-bit vectors, so that weights packed there can be loaded here: blocks of 64 rows,
// transposed, a byte holding rows i and i + 32 of its block. What is left over is a block whose bytes hold neighbours.
constexpr int64_t kBlock = 64;

// [rows, k] of 4-bit numbers as u8 -> flat bytes of one run of blocks.
Value pack_rows(Value w, int64_t block, bool neighbours) {
  const int64_t blocks = w.dim(0) / block, k = w.dim(1), half = block / 2;
  w = neighbours ? stablehlo::transpose(reshape(w, {blocks, half, 2, k}), {0, 3, 1, 2})
                 : stablehlo::transpose(reshape(w, {blocks, 2, half, k}), {0, 3, 2, 1});
  w = reshape(w, {blocks * k * half, 2});
  Value high = slice_dim(w, 1, 1, 2);
  return flatten(logical_or(slice_dim(w, 1, 0, 1), shift_left(high, constant_like(high, 4))));
}

Value unpack_rows(Value bytes, int64_t rows, int64_t k, int64_t block, bool neighbours) {
  const int64_t blocks = rows / block, half = block / 2;
  bytes = reshape(bytes, {bytes.numel(), 1});
  const Value parts[2] = {logical_and(bytes, constant_like(bytes, 15)),
                          shift_right_logical(bytes, constant_like(bytes, 4))};
  Value w = reshape(concatenate(parts, 1), {blocks, k, half, 2});
  w = stablehlo::transpose(w, neighbours ? Dims{0, 2, 3, 1} : Dims{0, 3, 2, 1});
  return reshape(w, {rows, k});
}

Value convert_weight_to_int4pack(Op& op) {
  Value w = op.tensor("self", kU8);
  const int64_t n = w.dim(0), k = w.dim(1), whole = n / kBlock * kBlock;
  std::vector<Value> parts;
  if (whole > 0) parts.push_back(pack_rows(slice_dim(w, 0, 0, whole), kBlock, false));
  if (whole < n) parts.push_back(pack_rows(slice_dim(w, 0, whole, n), n - whole, true));
  if (parts.empty()) return constant(op.builder(), kU8, 0, {n, k / 2});
  return reshape(concatenate(parts, 0), {n, k / 2});
}

// x times (w - 8) * scale + zero, with one scale and zero for each group of inputs of a row: [k / group, n, 2].
Value weight_int4pack_mm(Op& op) {
  const ElementType t = op.element("self");
  const int64_t n = op.dims("mat2").at(0), k = op.dims("self").at(1), group = op.integer("qGroupSize");
  const int64_t whole = n / kBlock * kBlock, whole_bytes = whole * k / 2;
  Value bytes = flatten(op.tensor("mat2"));
  std::vector<Value> parts;
  if (whole > 0) parts.push_back(unpack_rows(slice_dim(bytes, 0, 0, whole_bytes), whole, k, kBlock, false));
  if (whole < n)
    parts.push_back(unpack_rows(slice_dim(bytes, 0, whole_bytes, n * k / 2), n - whole, k, n - whole, true));
  Value w = convert(concatenate(parts, 0), kF32) - 8.0;
  Value grid = stablehlo::transpose(op.tensor("qScaleAndZeros", kF32), {1, 0, 2});  // [n, groups, 2]
  const auto of_weight = [&](int64_t which) {
    Value v = reshape(slice_dim(grid, 2, which, which + 1), {n, k / group});
    return reshape(broadcast_in_dim(v, {n, k / group, group}, {0, 1}), {n, k});
  };
  w = w * of_weight(0) + of_weight(1);
  return convert(contract(op, op.tensor("self", kF32), w, {{}, {}, {1}, {1}}), t);
}

}  // namespace

void register_quantized_matmul(Registry& r) {
  r.add_internal("tpu.scaled_mm", scaled_mm);
  r.add("_weight_int8pack_mm", weight_int8pack_mm);
  r.add("_convert_weight_to_int4pack_for_cpu", convert_weight_to_int4pack);
  r.add("_weight_int4pack_mm_for_cpu", weight_int4pack_mm);
}

}  // namespace torch_tpu::lowering
