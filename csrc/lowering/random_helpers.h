// Random numbers from random bits: what random.cc and random_sampling.cc share.
#pragma once

#include <functional>
#include <utility>

#include "lowering/op.h"

namespace torch_tpu::lowering {

// Significant bits of a floating type, hidden one included: as many as ATen draws for a uniform number of the type.
int significand_bits(ElementType type);
// The type that samples of `type` are computed in: f64 for f64 and complex128, f32 for the rest.
ElementType sampling_type(ElementType type);
// The unsigned type that makes one number of `sampling`: ui64 for f64, ui32 for f32.
ElementType bits_type(ElementType sampling);

// Bits of the call's generator; an empty shape draws nothing.
Value draw_bits(const Op& op, ElementType bits, const Dims& dims);
// In [0, 1) as multiples of 2^-digits; never 1.
Value half_open_unit(Value bits, int digits);
// In (0, 1] with all the bits given, so that its logarithm is finite and has long tails.
Value positive_unit(Value bits);
// Standard normal numbers (Box-Muller), in the sampling type of the bits; `bits` has rank 1 and even length >= numel.
Value normal_from_bits(Value bits, const Dims& dims);
// Number of draws that normal_from_bits takes.
inline int64_t normal_draws(int64_t numel) { return (numel + 1) / 2 * 2; }
// Exponential numbers of rate 1: positive, finite, accurate at both ends.
Value exponential_from_bits(Value bits);
// bool: true with probability p, a rank-0 f64.
Value bernoulli_from_bits(Value bits, Value p);

// A generator of its own, seeded by the call's: for loops whose number of draws is not known beforehand.
struct RandomStream {
  RandomStream(const Op& op, Value state) : op(op), state(state) {}
  static Value seed(const Op& op) { return op.random_bits(ElementType::kU64, {2}); }
  Value bits(ElementType type, const Dims& dims);

  const Op& op;
  Value state;  // ui64[2]
};

// One round of a rejection sampler over all lanes: (accepted, candidate).
using Proposal = std::function<std::pair<Value, Value>(RandomStream&)>;
// Draws until each lane of `pending` has accepted a candidate; the other lanes keep `initial`.
Value rejection_sample(const Op& op, Value pending, Value initial, const Proposal& propose);

// Inclusive scan over the last dim in log2(n) steps.
Value scan_last_dim(Value x, Value identity, const stablehlo::Combine& combine);

}  // namespace torch_tpu::lowering
