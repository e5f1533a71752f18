#include "lowering/random_helpers.h"

#include <cmath>
#include <numbers>

#include "lowering/helpers.h"

namespace torch_tpu::lowering {

using namespace stablehlo;

int significand_bits(ElementType type) {
  switch (real_type(type)) {
    case ElementType::kF64:
      return 53;
    case ElementType::kF16:
      return 11;
    case ElementType::kBF16:
      return 8;
    default:
      return 24;
  }
}

ElementType sampling_type(ElementType type) {
  return real_type(type) == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
}

ElementType bits_type(ElementType sampling) {
  return sampling == ElementType::kF64 ? ElementType::kU64 : ElementType::kU32;
}

namespace {

// XLA's CPU backend makes 64-bit words ten times faster than 32-bit ones: there, ui32 bits are halves of words.
bool from_words(const Op& op, ElementType bits) { return bits == ElementType::kU32 && op.target().is_cpu(); }
Dims words_for(const Dims& dims) { return {(TensorType{ElementType::kU32, dims}.numel() + 1) / 2}; }
Value halves(Value words, const Dims& dims) {
  Value high = shift_right_logical(words, constant_like(words, 32));
  const Value parts[2] = {convert(words, ElementType::kU32), convert(high, ElementType::kU32)};
  const int64_t numel = TensorType{ElementType::kU32, dims}.numel();
  return reshape(slice_dim(concatenate(parts, 0), 0, 0, numel), dims);
}

}  // namespace

Value draw_bits(const Op& op, ElementType bits, const Dims& dims) {
  if (TensorType{bits, dims}.numel() == 0) return constant(op.builder(), bits, 0, dims);
  if (from_words(op, bits)) return halves(op.random_bits(ElementType::kU64, words_for(dims)), dims);
  return op.random_bits(bits, dims);
}

Value RandomStream::bits(ElementType type, const Dims& dims) {
  const bool split = from_words(op, type);
  auto [next, value] =
      split ? rng_bit_generator(state, ElementType::kU64, words_for(dims)) : rng_bit_generator(state, type, dims);
  state = next;
  return split ? halves(value, dims) : value;
}

static ElementType float_of(Value bits) {
  return bits.element() == ElementType::kU64 ? ElementType::kF64 : ElementType::kF32;
}

Value half_open_unit(Value bits, int digits) {
  const int width = static_cast<int>(byte_size(bits.element())) * 8;
  Value high = shift_right_logical(bits, constant_like(bits, width - digits));
  Value x = convert(high, float_of(bits));
  return x * constant_like(x, std::ldexp(1.0, -digits));
}

Value positive_unit(Value bits) {
  const int width = static_cast<int>(byte_size(bits.element())) * 8;
  Value x = convert(bits, float_of(bits));
  return (x + constant_like(x, 0.5)) * constant_like(x, std::ldexp(1.0, -width));
}

Value normal_from_bits(Value bits, const Dims& dims) {
  const int64_t numel = TensorType{bits.element(), dims}.numel(), half = bits.dim(0) / 2;
  if (numel == 0) return constant(bits.builder(), float_of(bits), 0.0, dims);
  Value u = positive_unit(slice_dim(bits, 0, 0, half));
  Value turn = half_open_unit(slice_dim(bits, 0, half, 2 * half), significand_bits(float_of(bits)));
  Value radius = stablehlo::sqrt(stablehlo::log(u) * constant_like(u, -2.0));
  Value angle = turn * constant_like(turn, 2 * std::numbers::pi);
  const Value both[2] = {radius * cosine(angle), radius * sine(angle)};
  return reshape(slice_dim(concatenate(both, 0), 0, 0, numel), dims);
}

Value exponential_from_bits(Value bits) {
  // u and w = 1 - u are both exact to their own magnitude: -log(u) has the long tail, -log(1 - w) the small numbers.
  Value u = positive_unit(bits), w = positive_unit(logical_not(bits));
  return select(less(u, constant_like(u, 0.5)), negate(stablehlo::log(u)), negate(log_plus_one(negate(w))));
}

Value bernoulli_from_bits(Value bits, Value p) {
  // An integer threshold keeps p = 0 and p = 1 exact and the elementwise part to one comparison.
  Value scaled = stablehlo::floor(p * constant_like(p, 4294967296.0));
  Value limit = stablehlo::clamp(constant_like(p, 0.0), scaled, constant_like(p, 4294967295.0));
  Value threshold = convert(convert(limit, ElementType::kS64), ElementType::kU32);
  Value always = broadcast_to(greater_equal(p, constant_like(p, 1.0)), bits.dims());
  return logical_or(less(bits, broadcast_to(threshold, bits.dims())), always);
}

Value rejection_sample(const Op& op, Value pending, Value initial, const Proposal& propose) {
  if (initial.numel() == 0) return initial;
  // Samplers here accept more than half of their candidates: the limit only bounds what broken inputs could cost.
  constexpr int kMaxRounds = 1000;
  const Value round = constant(op.builder(), ElementType::kS32, 0);
  const Value init[4] = {RandomStream::seed(op), round, pending, initial};
  return while_loop(
      init,
      [&](std::span<const Value> s) {
        return logical_and(reduce_or(s[2], all_dims(s[2].rank())), less(s[1], constant_like(s[1], kMaxRounds)));
      },
      [&](std::span<const Value> s) {
        RandomStream stream(op, s[0]);
        auto [accepted, candidate] = propose(stream);
        Value taken = logical_and(s[2], accepted);
        return std::vector<Value>{stream.state, s[1] + constant_like(s[1], 1), logical_and(s[2], logical_not(accepted)),
                                  select(taken, candidate, s[3])};
      })[3];
}

Value scan_last_dim(Value x, Value identity, const Combine& combine) {
  const int64_t last = x.rank() - 1, n = x.dims().back();
  Dims zero(x.dims().size(), 0);
  for (int64_t shift = 1; shift < n; shift *= 2) {
    Dims low = zero, high = zero;
    low[static_cast<size_t>(last)] = shift;
    high[static_cast<size_t>(last)] = -shift;
    x = combine(pad(x, identity, low, high), x);
  }
  return x;
}

}  // namespace torch_tpu::lowering
