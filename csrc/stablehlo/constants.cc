#include "stablehlo/constants.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace torch_tpu::stablehlo {
namespace {

// Bits of infinities and NaNs, which MLIR reads only as hexadecimal literals of the type's width.
std::string nonfinite_literal(ElementType type, double value) {
  const bool nan = std::isnan(value), negative = std::signbit(value);
  switch (type) {
    case ElementType::kF64:
      return nan ? "0x7FF8000000000000" : negative ? "0xFFF0000000000000" : "0x7FF0000000000000";
    case ElementType::kF32:
      return nan ? "0x7FC00000" : negative ? "0xFF800000" : "0x7F800000";
    case ElementType::kBF16:
      return nan ? "0x7FC0" : negative ? "0xFF80" : "0x7F80";
    case ElementType::kF16:
      return nan ? "0x7E00" : negative ? "0xFC00" : "0x7C00";
    case ElementType::kF8E5M2:
      return nan ? "0x7E" : negative ? "0xFC" : "0x7C";
    case ElementType::kF8E4M3FN:  // no infinities
      return "0x7F";
    case ElementType::kF8E5M2FNUZ:
    case ElementType::kF8E4M3FNUZ:
      return "0x80";
    case ElementType::kF8E8M0FNU:
      return "0xFF";
    default:
      throw TypeError("non-finite literal of a non-floating type");
  }
}

Value dense(Builder& b, ElementType type, const Dims& dims, const std::string& text) {
  TensorType t{type, dims};
  return b.emit1("stablehlo.constant", {}, "value = dense<" + text + "> : " + to_string(t), t);
}

template <typename T>
Value vector_of(Builder& b, ElementType type, std::span<const T> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ", ";
    text += literal(type, values[i]);
  }
  text += "]";
  if (values.empty()) text.clear();
  return dense(b, type, {static_cast<int64_t>(values.size())}, text);
}

}  // namespace

std::string literal(ElementType type, double value) {
  if (is_bool(type)) return value != 0 ? "true" : "false";
  if (is_integer(type)) {
    if (type == ElementType::kU64 && value >= 9223372036854775808.0)
      return std::to_string(static_cast<uint64_t>(value));
    return literal(type, static_cast<int64_t>(value));
  }
  if (is_complex(type)) return "(" + literal(real_type(type), value) + ", " + literal(real_type(type), 0.0) + ")";
  // What overflows the type would be read as a finite number by some parsers.
  if (!std::isfinite(value) || (type == ElementType::kF32 && !std::isfinite(static_cast<float>(value))))
    return nonfinite_literal(type, value);
  char buffer[40];
  if (type == ElementType::kF32) value = static_cast<float>(value);
  std::snprintf(buffer, sizeof buffer, "%.17e", value);
  return buffer;
}

std::string literal(ElementType type, int64_t value) {
  if (is_bool(type)) return value != 0 ? "true" : "false";
  switch (type) {  // wrap to the width, as a C cast does
    case ElementType::kS8:
      return std::to_string(static_cast<int8_t>(value));
    case ElementType::kS16:
      return std::to_string(static_cast<int16_t>(value));
    case ElementType::kS32:
      return std::to_string(static_cast<int32_t>(value));
    case ElementType::kS64:
      return std::to_string(value);
    case ElementType::kU8:
      return std::to_string(static_cast<uint8_t>(value));
    case ElementType::kU16:
      return std::to_string(static_cast<uint16_t>(value));
    case ElementType::kU32:
    case ElementType::kC32:  // words in arrays
      return std::to_string(static_cast<uint32_t>(value));
    case ElementType::kU64:
      return std::to_string(static_cast<uint64_t>(value));
    default:
      return literal(type, static_cast<double>(value));
  }
}

Value constant(Builder& b, ElementType type, double value, const Dims& dims) {
  return dense(b, type, dims, literal(type, value));
}
Value constant(Builder& b, ElementType type, int64_t value, const Dims& dims) {
  return dense(b, type, dims, literal(type, value));
}
Value constant(Builder& b, ElementType type, std::complex<double> value, const Dims& dims) {
  if (!is_complex(type)) return constant(b, type, value.real(), dims);
  const ElementType part = real_type(type);
  return dense(b, type, dims, "(" + literal(part, value.real()) + ", " + literal(part, value.imag()) + ")");
}
Value constant_vector(Builder& b, ElementType type, std::span<const int64_t> values) {
  return vector_of(b, type, values);
}
Value constant_vector(Builder& b, ElementType type, std::span<const double> values) {
  return vector_of(b, type, values);
}

int64_t integer_min(ElementType type) {
  if (!is_signed_integer(type)) return 0;
  return -static_cast<int64_t>(integer_max(type)) - 1;
}
uint64_t integer_max(ElementType type) {
  const int bits = static_cast<int>(byte_size(type)) * 8;
  if (is_bool(type)) return 1;
  if (is_signed_integer(type)) return (uint64_t{1} << (bits - 1)) - 1;
  return bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - 1;
}

double finite_max(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return std::numeric_limits<double>::max();
    case ElementType::kF32:
      return std::numeric_limits<float>::max();
    case ElementType::kBF16:
      return std::bit_cast<float>(uint32_t{0x7F7F0000});
    case ElementType::kF16:
      return 65504.0;
    case ElementType::kF8E5M2:
    case ElementType::kF8E5M2FNUZ:
      return 57344.0;
    case ElementType::kF8E4M3FN:
      return 448.0;
    case ElementType::kF8E4M3FNUZ:
      return 240.0;
    case ElementType::kF8E8M0FNU:
      return std::ldexp(1.0, 127);
    default:
      throw TypeError("finite_max of a non-floating type");
  }
}
double epsilon(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return std::numeric_limits<double>::epsilon();
    case ElementType::kF32:
      return std::numeric_limits<float>::epsilon();
    case ElementType::kBF16:
      return 0.0078125;
    case ElementType::kF16:
      return 0.0009765625;
    default:
      throw TypeError("epsilon of this type");
  }
}
double smallest_normal(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return std::numeric_limits<double>::min();
    case ElementType::kF32:
    case ElementType::kBF16:
      return std::numeric_limits<float>::min();
    case ElementType::kF16:
      return 6.103515625e-05;
    default:
      throw TypeError("smallest_normal of this type");
  }
}

Value lowest(Builder& b, ElementType type, const Dims& dims) {
  if (is_floating(type)) return constant(b, type, -std::numeric_limits<double>::infinity(), dims);
  return constant(b, type, integer_min(type), dims);
}
Value highest(Builder& b, ElementType type, const Dims& dims) {
  if (is_floating(type)) return constant(b, type, std::numeric_limits<double>::infinity(), dims);
  return constant(b, type, static_cast<int64_t>(integer_max(type)), dims);
}
Value quiet_nan(Builder& b, ElementType type, const Dims& dims) {
  return constant(b, type, std::numeric_limits<double>::quiet_NaN(), dims);
}

Value iota(Builder& b, ElementType type, const Dims& dims, int64_t dimension) {
  if (is_bool(type) || is_float8(type)) throw TypeError("iota of bool or float8");
  return b.emit1("stablehlo.iota", {}, "iota_dimension = " + std::to_string(dimension) + " : i64", {type, dims});
}

}  // namespace torch_tpu::stablehlo
