// Element types of device arrays, shared by every layer below. The order is part of cache keys: append only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pjrt_c_api.h"

namespace torch_tpu {

enum class ElementType : uint8_t {
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E5M2,
  kF8E4M3FN,
  kF8E5M2FNUZ,
  kF8E4M3FNUZ,
  kF8E8M0FNU,
  kInvalid,
  // complex32, which XLA does not have: arrays hold it as words of two halves, programs compute in complex64.
  kC32,
};

struct ElementTypeInfo {
  const char* mlir;  // spelling in StableHLO text
  const char* name;  // torch's spelling, for messages
  uint8_t bytes;
  PJRT_Buffer_Type pjrt;
};

inline const ElementTypeInfo& element_type_info(ElementType type) {
  static constexpr ElementTypeInfo kTable[] = {
      {"i1", "bool", 1, PJRT_Buffer_Type_PRED},
      {"i8", "int8", 1, PJRT_Buffer_Type_S8},
      {"i16", "int16", 2, PJRT_Buffer_Type_S16},
      {"i32", "int32", 4, PJRT_Buffer_Type_S32},
      {"i64", "int64", 8, PJRT_Buffer_Type_S64},
      {"ui8", "uint8", 1, PJRT_Buffer_Type_U8},
      {"ui16", "uint16", 2, PJRT_Buffer_Type_U16},
      {"ui32", "uint32", 4, PJRT_Buffer_Type_U32},
      {"ui64", "uint64", 8, PJRT_Buffer_Type_U64},
      {"f16", "float16", 2, PJRT_Buffer_Type_F16},
      {"bf16", "bfloat16", 2, PJRT_Buffer_Type_BF16},
      {"f32", "float32", 4, PJRT_Buffer_Type_F32},
      {"f64", "float64", 8, PJRT_Buffer_Type_F64},
      {"complex<f32>", "complex64", 8, PJRT_Buffer_Type_C64},
      {"complex<f64>", "complex128", 16, PJRT_Buffer_Type_C128},
      {"f8E5M2", "float8_e5m2", 1, PJRT_Buffer_Type_F8E5M2},
      {"f8E4M3FN", "float8_e4m3fn", 1, PJRT_Buffer_Type_F8E4M3FN},
      {"f8E5M2FNUZ", "float8_e5m2fnuz", 1, PJRT_Buffer_Type_F8E5M2FNUZ},
      {"f8E4M3FNUZ", "float8_e4m3fnuz", 1, PJRT_Buffer_Type_F8E4M3FNUZ},
      {"f8E8M0FNU", "float8_e8m0fnu", 1, PJRT_Buffer_Type_F8E8M0FNU},
      {"invalid", "invalid", 0, PJRT_Buffer_Type_INVALID},
      {"ui32", "complex32", 4, PJRT_Buffer_Type_U32},
  };
  return kTable[static_cast<uint8_t>(type)];
}

inline size_t byte_size(ElementType type) { return element_type_info(type).bytes; }
inline const char* name_of(ElementType type) { return element_type_info(type).name; }

inline bool is_bool(ElementType t) { return t == ElementType::kPred; }
inline bool is_signed_integer(ElementType t) { return t >= ElementType::kS8 && t <= ElementType::kS64; }
inline bool is_unsigned_integer(ElementType t) { return t >= ElementType::kU8 && t <= ElementType::kU64; }
// Integers proper; bool is not one.
inline bool is_integer(ElementType t) { return t >= ElementType::kS8 && t <= ElementType::kU64; }
inline bool is_float8(ElementType t) { return t >= ElementType::kF8E5M2 && t <= ElementType::kF8E8M0FNU; }
inline bool is_floating(ElementType t) { return (t >= ElementType::kF16 && t <= ElementType::kF64) || is_float8(t); }
inline bool is_complex(ElementType t) { return t == ElementType::kC64 || t == ElementType::kC128; }
inline bool is_reduced_float(ElementType t) {
  return t == ElementType::kF16 || t == ElementType::kBF16 || is_float8(t);
}

// The real type of a complex type's parts; other types are returned as they are.
inline ElementType real_type(ElementType t) {
  if (t == ElementType::kC64) return ElementType::kF32;
  if (t == ElementType::kC128) return ElementType::kF64;
  return t;
}
// The complex type whose parts hold `t`: f64 -> c128, all others -> c64.
inline ElementType complex_type(ElementType t) {
  if (is_complex(t)) return t;
  return t == ElementType::kF64 ? ElementType::kC128 : ElementType::kC64;
}
// The type of the values that programs have for elements of an array.
inline ElementType value_type(ElementType t) { return t == ElementType::kC32 ? ElementType::kC64 : t; }
// ATen's opmath: reduced floats compute in f32, others in their own type.
inline ElementType opmath_type(ElementType t) { return is_reduced_float(t) ? ElementType::kF32 : t; }

}  // namespace torch_tpu
