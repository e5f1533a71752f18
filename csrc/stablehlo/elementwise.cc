#include "stablehlo/elementwise.h"

#include <limits>

#include "stablehlo/constants.h"

namespace torch_tpu::stablehlo {
namespace {

Value unary(const char* name, Value x) { return x.builder().emit1(name, {x}, "", x.type()); }

Value binary(const char* name, Value x, Value y) {
  if (x.type() != y.type())
    throw TypeError(std::string(name) + ": " + to_string(x.type()) + " against " + to_string(y.type()));
  return x.builder().emit1(name, {x, y}, "", x.type());
}

TensorType with_element(Value x, ElementType element) { return {element, x.dims()}; }

}  // namespace

#define TORCH_TPU_DEFINE_UNARY(name) \
  Value name(Value x) { return unary("stablehlo." #name, x); }
#define TORCH_TPU_DEFINE_CHLO_UNARY(name) \
  Value name(Value x) { return unary("chlo." #name, x); }
#define TORCH_TPU_DEFINE_BINARY(name) \
  Value name(Value x, Value y) { return binary("stablehlo." #name, x, y); }
#define TORCH_TPU_DEFINE_CHLO_BINARY(name) \
  Value name(Value x, Value y) { return binary("chlo." #name, x, y); }
TORCH_TPU_UNARY_OPS(TORCH_TPU_DEFINE_UNARY)
TORCH_TPU_CHLO_UNARY_OPS(TORCH_TPU_DEFINE_CHLO_UNARY)
TORCH_TPU_BINARY_OPS(TORCH_TPU_DEFINE_BINARY)
TORCH_TPU_CHLO_BINARY_OPS(TORCH_TPU_DEFINE_CHLO_BINARY)

Value abs(Value x) {
  if (is_bool(x.element()) || is_unsigned_integer(x.element())) return x;
  return x.builder().emit1("stablehlo.abs", {x}, "", with_element(x, real_type(x.element())));
}

Value logical_and(Value x, Value y) { return binary("stablehlo.and", x, y); }
Value logical_or(Value x, Value y) { return binary("stablehlo.or", x, y); }
Value logical_xor(Value x, Value y) { return binary("stablehlo.xor", x, y); }
Value logical_not(Value x) { return unary("stablehlo.not", x); }

Value erf(Value x) {
  Value series = unary("chlo.erf", x);
  if (x.element() != ElementType::kF32) return series;
  constexpr double kNearestIsOne = 3.92;
  return select(compare(Comparison::kGe, abs(x), constant_like(x, kNearestIsOne)), sign(x), series);
}

Value erfc(Value x) {
  Value series = unary("chlo.erfc", x);
  if (x.element() != ElementType::kF32) return series;
  constexpr double kNearestIsTwo = -3.84;
  return select(compare(Comparison::kLe, x, constant_like(x, kNearestIsTwo)), constant_like(x, 2), series);
}

Value is_finite(Value x) {
  if (!is_floating(x.element())) throw TypeError("is_finite of a non-floating value");
  return x.builder().emit1("stablehlo.is_finite", {x}, "", with_element(x, ElementType::kPred));
}

Value is_nan(Value x) {
  if (is_complex(x.element())) return logical_or(is_nan(real(x)), is_nan(imag(x)));
  if (!is_floating(x.element())) return constant(x.builder(), ElementType::kPred, false, x.dims());
  return not_equal(x, x);
}

Value is_inf(Value x) {
  if (is_complex(x.element())) return logical_or(is_inf(real(x)), is_inf(imag(x)));
  if (!is_floating(x.element())) return constant(x.builder(), ElementType::kPred, false, x.dims());
  return equal(abs(x), constant_like(x, std::numeric_limits<double>::infinity()));
}

Value compare(Comparison direction, Value x, Value y) {
  if (x.type() != y.type()) throw TypeError("compare: " + to_string(x.type()) + " against " + to_string(y.type()));
  static constexpr const char* kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const ElementType e = x.element();
  const char* kind = is_floating(e) || is_complex(e)                     ? "FLOAT"
                     : is_unsigned_integer(e) || e == ElementType::kPred ? "UNSIGNED"
                                                                         : "SIGNED";
  return x.builder().emit1("stablehlo.compare", {x, y},
                           std::string("comparison_direction = #stablehlo<comparison_direction ") +
                               kNames[static_cast<int>(direction)] + ">, compare_type = #stablehlo<comparison_type " +
                               kind + ">",
                           with_element(x, ElementType::kPred));
}

Value select(Value predicate, Value on_true, Value on_false) {
  if (on_true.type() != on_false.type() || predicate.element() != ElementType::kPred ||
      (predicate.rank() != 0 && predicate.dims() != on_true.dims()))
    throw TypeError("select: " + to_string(predicate.type()) + ", " + to_string(on_true.type()) + ", " +
                    to_string(on_false.type()));
  return on_true.builder().emit1("stablehlo.select", {predicate, on_true, on_false}, "", on_true.type());
}

Value clamp(Value low, Value x, Value high) {
  return x.builder().emit1("stablehlo.clamp", {low, x, high}, "", x.type());
}

Value real(Value x) {
  if (!is_complex(x.element())) return x;
  return x.builder().emit1("stablehlo.real", {x}, "", with_element(x, real_type(x.element())));
}
Value imag(Value x) {
  if (!is_complex(x.element())) return constant_like(x, 0);
  return x.builder().emit1("stablehlo.imag", {x}, "", with_element(x, real_type(x.element())));
}
Value complex(Value re, Value im) {
  if (re.type() != im.type() || (re.element() != ElementType::kF32 && re.element() != ElementType::kF64))
    throw TypeError("complex: " + to_string(re.type()) + ", " + to_string(im.type()));
  return re.builder().emit1("stablehlo.complex", {re, im}, "", with_element(re, complex_type(re.element())));
}

static Value plain_convert(Value x, ElementType to) {
  if (x.element() == to) return x;
  return x.builder().emit1("stablehlo.convert", {x}, "", with_element(x, to));
}

// The types of 8 bits where XLA's conversion is not ATen's.
static Value convert_to_float8(Value x, ElementType to) {
  if (!is_floating(x.element()) || is_float8(x.element())) x = convert(x, ElementType::kF32);
  if (to == ElementType::kF8E4M3FN) {  // saturates
    const auto bound = [&](double v) { return constant(x.builder(), x.element(), v); };
    return plain_convert(clamp(bound(-448), x, bound(448)), to);
  }
  // e8m0 has neither sign nor zero: zero becomes the smallest number, whose bits are zero.
  Value smallest = bitcast_convert(constant(x.builder(), ElementType::kU8, 0, x.dims()), to);
  return select(equal(x, constant_like(x, 0)), smallest, plain_convert(abs(x), to));
}

Value convert(Value x, ElementType to) {
  const ElementType from = x.element();
  if (from == to) return x;
  if (is_bool(to)) return not_equal(x, constant_like(x, 0));
  if (is_complex(from) && !is_complex(to)) return convert(real(x), to);
  if (is_complex(to) && !is_complex(from)) {
    Value re = convert(x, real_type(to));
    return complex(re, constant_like(re, 0));
  }
  // StableHLO leaves an out-of-range conversion to the implementation (XLA saturates); x86's cvtt goes through a wide
  // integer and drops the high bits, and ATen's users see 256.0 -> uint8 0 and -1.0 -> uint8 255.
  if (is_floating(from) && is_integer(to) && to != ElementType::kS64 && to != ElementType::kS32) {
    const ElementType wide = byte_size(to) < 4 ? ElementType::kS32 : ElementType::kS64;
    return plain_convert(plain_convert(x, wide), to);
  }
  if (to == ElementType::kF8E4M3FN || to == ElementType::kF8E8M0FNU) return convert_to_float8(x, to);
  // XLA turns the product of a converted bool and x into a choice between x and 0, which loses NaN and -0.
  if (is_bool(from) && is_floating(to)) x = plain_convert(x, ElementType::kS8);
  return plain_convert(x, to);
}

Value bitcast_convert(Value x, ElementType to) {
  const size_t from_bytes = byte_size(x.element()), to_bytes = byte_size(to);
  TensorType result{to, x.dims()};
  if (from_bytes > to_bytes) {
    result.dims.push_back(static_cast<int64_t>(from_bytes / to_bytes));
  } else if (from_bytes < to_bytes) {
    if (x.rank() == 0 || x.dims().back() != static_cast<int64_t>(to_bytes / from_bytes))
      throw TypeError("bitcast_convert: last dim of " + to_string(x.type()) + " does not make one " + name_of(to));
    result.dims.pop_back();
  }
  return x.builder().emit1("stablehlo.bitcast_convert", {x}, "", result);
}

Value reduce_precision(Value x, int exponent_bits, int mantissa_bits) {
  return x.builder().emit1("stablehlo.reduce_precision", {x},
                           "exponent_bits = " + std::to_string(exponent_bits) +
                               " : i32, mantissa_bits = " + std::to_string(mantissa_bits) + " : i32",
                           x.type());
}

Value constant_like(Value x, double value) { return constant(x.builder(), x.element(), value, x.dims()); }
Value constant_like(Value x, int64_t value) { return constant(x.builder(), x.element(), value, x.dims()); }

}  // namespace torch_tpu::stablehlo
