// One call of an op as it arrives from PyTorch: tensors by geometry, runtime scalars, and the key under which its
// program is cached.
#pragma once

#include <cstdint>

#include "pjrt/element_type.h"
#include "runtime/inline_vector.h"
#include "runtime/storage.h"

namespace torch_tpu::runtime {

// A tensor argument. Sizes and strides point into the tensor, which outlives the call.
struct TensorRef {
  Storage* storage = nullptr;  // null: a host scalar, whose value is scalars[scalar]
  ElementType type = ElementType::kInvalid;
  bool wrapped_number = false;
  bool contiguous = false;  // row-major, in the sense of Tensor::is_contiguous
  bool conjugated = false;  // lazily: the memory holds the conjugate
  bool negated = false;     // lazily
  int16_t rank = 0;
  int16_t scalar = -1;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int64_t offset = 0;  // in elements of `type`

  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= sizes[i];
    return n;
  }
};

struct ScalarValue {
  ElementType kind = ElementType::kF64;  // kPred, kS64, kF64, kC128
  int64_t integer = 0;                   // kPred, kS64 (the bits of a uint64 too)
  double real = 0, imag = 0;             // kF64, kC128
  double as_double() const {
    return kind == ElementType::kPred || kind == ElementType::kS64 ? static_cast<double>(integer) : real;
  }
  int64_t as_integer() const;  // truncates; saturates where a double is out of range
};

// Seed and counter of a generator. reserve() hands out `blocks` 128-bit Philox blocks, atomically.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual void reserve(int64_t blocks, uint64_t* seed, uint64_t* offset) = 0;
};

using KeyWords = InlineVector<uint64_t, 96>;

struct Call {
  InlineVector<TensorRef, 8> tensors;
  InlineVector<ScalarValue, 8> scalars;
  KeyWords key;
  RandomSource* random = nullptr;
  int device = 0;
};

// Appends what identifies tensor `index` of the call: dtype, sizes, strides, the array beneath and which earlier tensor
// shares it. The offset is left out: it is a runtime input. `irregular` marks a view whose offset does not fit the
// plain plan of its geometry (see access_plan.h).
void append_tensor_key(Call& call, size_t index, bool irregular);

uint64_t hash_words(const uint64_t* words, size_t n);

}  // namespace torch_tpu::runtime
