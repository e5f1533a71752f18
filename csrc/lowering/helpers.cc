#include "lowering/helpers.h"

#include <algorithm>

namespace torch_tpu::lowering {

ElementType promote(ElementType a, ElementType b) {
  using enum ElementType;
  if (a == b) return a;
  if (a == kInvalid) return b;
  if (b == kInvalid) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide = a == kC128 || b == kC128 || a == kF64 || b == kF64;
    return wide ? kC128 : kC64;
  }
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) {
    if (is_float8(a) || is_float8(b)) throw CallError("Promotion for Float8 Types is not supported");
    if (a == kF64 || b == kF64) return kF64;
    return kF32;  // f16 with bf16, or f32 with either
  }
  if (is_bool(a)) return b;
  if (is_bool(b)) return a;
  if (is_signed_integer(a) == is_signed_integer(b)) return byte_size(a) > byte_size(b) ? a : b;
  const ElementType s = is_signed_integer(a) ? a : b, u = is_signed_integer(a) ? b : a;
  if (u == kU8) return s == kS8 ? kS16 : s;
  throw CallError(std::string("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ") +
                  name_of(a) + " and " + name_of(b));
}

ElementType common_type(const Op& op, std::initializer_list<std::string_view> args) {
  // Priorities of at::result_type: tensors with dims, then 0-dim tensors, then wrapped numbers.
  ElementType dimensioned = ElementType::kInvalid, zero_dim = ElementType::kInvalid, number = ElementType::kInvalid;
  auto add_number = [&](ElementType kind) {
    ElementType t = kind;
    if (is_floating(kind)) t = op.numerics().default_float;
    if (is_complex(kind)) t = complex_type(op.numerics().default_float);
    number = promote(number, t);
  };
  for (std::string_view arg : args) {
    if (!op.has(arg)) continue;
    if (!op.is_tensor(arg)) {
      add_number(op.scalar_kind(arg));
    } else if (op.is_wrapped_number(arg)) {
      add_number(op.element(arg));
    } else if (op.rank(arg) == 0) {
      zero_dim = promote(zero_dim, op.element(arg));
    } else {
      dimensioned = promote(dimensioned, op.element(arg));
    }
  }
  auto category = [](ElementType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : is_bool(t) ? 0 : 1; };
  auto combine = [&](ElementType higher, ElementType lower) {
    if (higher == ElementType::kInvalid) return lower;
    if (lower == ElementType::kInvalid) return higher;
    // A complex of lower priority takes its width from the higher-priority float.
    if (is_complex(lower) && is_floating(higher)) return complex_type(higher);
    return category(lower) > category(higher) ? promote(higher, lower) : higher;
  };
  return combine(dimensioned, combine(zero_dim, number));
}

ElementType common_float_type(const Op& op, std::initializer_list<std::string_view> args) {
  return to_float(op, common_type(op, args));
}

Value operand(const Op& op, std::string_view arg, ElementType as) {
  return op.is_tensor(arg) ? op.tensor(arg, as) : op.scalar(arg, as);
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1, db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1)
      throw CallError("The size of tensor a (" + std::to_string(da) + ") must match the size of tensor b (" +
                      std::to_string(db) + ") at non-singleton dimension " + std::to_string(out.size() - 1 - i));
    out[out.size() - 1 - i] = da == 1 ? db : da;
  }
  return out;
}

void broadcast_all(std::initializer_list<Value*> values) {
  Dims dims;
  for (Value* v : values) dims = broadcast_dims(dims, v->dims());
  for (Value* v : values) *v = stablehlo::broadcast_to(*v, dims);
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  const int64_t n = std::max<int64_t>(rank, 1);
  if (dim < -n || dim >= n)
    throw CallIndexError("Dimension out of range (expected to be in range of [" + std::to_string(-n) + ", " +
                         std::to_string(n - 1) + "], but got " + std::to_string(dim) + ")");
  return dim < 0 ? dim + n : dim;
}

Dims wrap_dims(const Dims& dims, int64_t rank) {
  Dims out;
  for (int64_t d : dims) out.push_back(wrap_dim(d, rank));
  return out;
}

Dims all_dims(int64_t rank) {
  Dims out;
  for (int64_t i = 0; i < rank; ++i) out.push_back(i);
  return out;
}

Dims reduction_dims(const Op& op, std::string_view arg, int64_t rank) {
  if (!op.has(arg)) return all_dims(rank);
  Dims dims = wrap_dims(op.integers(arg), rank);
  if (dims.empty()) return all_dims(rank);
  if (rank == 0) return {};
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    throw CallError("dim " + std::to_string(*std::adjacent_find(dims.begin(), dims.end())) +
                    " appears multiple times in the list of dims");
  return dims;
}

Value keep_dims(Value reduced, const Dims& original, const Dims& dims) {
  Dims out = original;
  for (int64_t d : dims) out.at(static_cast<size_t>(d)) = 1;
  return stablehlo::reshape(reduced, out);
}

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strides;
}

Value sum_opmath(Value x, const Dims& dims) {
  return stablehlo::reduce_sum(stablehlo::convert(x, opmath_type(x.element())), dims);
}

}  // namespace torch_tpu::lowering
