// Index arithmetic that the index, scatter, embedding and shape families share.
#pragma once

#include <functional>

#include "lowering/helpers.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {

// What an index below zero means, and whether an index outside the dim is reported.
enum class IndexRule {
  kWrap,         // counts from the end; out of range is reported
  kReject,       // out of range, and reported
  kTrustedWrap,  // counts from the end; the caller vouches for the range
  kClampedWrap,  // is moved into [-n, n) first
};

// Indices into a dim of n elements, ready for gather (which clamps) and scatter (which skips what is out of range).
Value checked_index(Op& op, Value index, int64_t n, IndexRule rule);

// For each element of `index` its coordinates in a tensor, with the element itself in the place of coordinate `dim`:
// dims of `index`, then one dim of its rank.
Value index_vectors(Value index, int64_t dim);
// result[p] = x[p with p[dim] replaced by index[p]]
Value gather_elements(Value x, int64_t dim, Value index);

// The combiner that overwrites.
Value keep_update(Value old, Value update);
// x with x[p with p[dim] = index[p]] = combine(old, updates[p])
Value scatter_elements(Value x, int64_t dim, Value index, Value updates, const stablehlo::Combine& combine);
// x with x[..., index[i], ...] = combine(old, updates[..., i, ...]); `index` is a vector.
Value scatter_slices(Value x, int64_t dim, Value index, Value updates, const stablehlo::Combine& combine);

// Scatters `updates` into a base by a combiner: one of the two functions above with its other arguments bound.
using ScatterInto = std::function<Value(Value base, Value updates, const stablehlo::Combine& combine)>;
// torch's scatter_reduce and index_reduce: "sum", "prod", "mean", "amax", "amin".
Value scatter_reduction(const Target& target, Value self, Value updates, const std::string& reduce, bool include_self,
                        const ScatterInto& scatter_into);
// Sum of updates into self in opmath, rounded once to the type of self.
Value scatter_sum(Value self, Value updates, const ScatterInto& scatter_into);

// Inclusive prefix sums of an integer vector.
Value prefix_sum(Value x);
// For each element of a bool vector, how many true ones stand before it (int32 or int64).
Value exclusive_rank(Value mask);

Value zeros(Builder& b, ElementType type, const Dims& dims);

}  // namespace torch_tpu::lowering
