#include "runtime/call.h"

#include <cmath>
#include <limits>

namespace torch_tpu::runtime {

int64_t ScalarValue::as_integer() const {
  if (kind == ElementType::kPred || kind == ElementType::kS64) return integer;
  if (std::isnan(real)) return 0;
  if (real >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  if (real < -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(real);
}

namespace {

enum Flag : uint64_t { kWrapped = 1, kHostScalar = 2, kGeneral = 4, kIrregular = 8, kConjugated = 16, kNegated = 32 };

bool whole_array(const TensorRef& t) {
  if (!t.contiguous || t.type != t.storage->element || t.storage->dims.size() != static_cast<size_t>(t.rank))
    return false;
  for (int i = 0; i < t.rank; ++i)
    if (t.sizes[i] != t.storage->dims[static_cast<size_t>(i)]) return false;
  return true;
}

}  // namespace

void append_tensor_key(Call& call, size_t index, bool irregular) {
  const TensorRef& t = call.tensors[index];
  uint64_t flags = t.wrapped_number ? uint64_t{kWrapped} : 0;
  if (!t.storage) {
    call.key.push_back(uint64_t{0x71} | static_cast<uint64_t>(t.type) << 8 | (flags | kHostScalar) << 16);
    return;
  }
  size_t slot = index;
  for (size_t i = 0; i < index; ++i) {
    if (call.tensors[i].storage == t.storage) {
      slot = i;
      break;
    }
  }
  const bool whole = whole_array(t);
  if (!whole) flags |= kGeneral;
  if (irregular) flags |= kIrregular;
  if (t.conjugated) flags |= kConjugated;
  if (t.negated) flags |= kNegated;
  const Storage& s = *t.storage;
  call.key.push_back(uint64_t{0x71} | static_cast<uint64_t>(t.type) << 8 | flags << 16 |
                     static_cast<uint64_t>(t.rank) << 24 | static_cast<uint64_t>(s.element) << 32 |
                     static_cast<uint64_t>(s.dims.size()) << 40 | static_cast<uint64_t>(slot) << 48);
  call.key.append(reinterpret_cast<const uint64_t*>(t.sizes), static_cast<size_t>(t.rank));
  if (whole) return;
  call.key.append(reinterpret_cast<const uint64_t*>(t.strides), static_cast<size_t>(t.rank));
  call.key.append(reinterpret_cast<const uint64_t*>(s.dims.data()), s.dims.size());
}

uint64_t hash_words(const uint64_t* words, size_t n) {
  // Multiply-mix over 64-bit words (the finalizer of splitmix64 at the end). Keys are compared in full, so this need
  // only be quick and well spread.
  uint64_t h = 0x9E3779B97F4A7C15ull ^ n;
  for (size_t i = 0; i < n; ++i) {
    h ^= words[i];
    h *= 0xBF58476D1CE4E5B9ull;
    h ^= h >> 29;
  }
  h *= 0x94D049BB133111EBull;
  return h ^ (h >> 32);
}

}  // namespace torch_tpu::runtime
