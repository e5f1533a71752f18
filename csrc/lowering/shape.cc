// Ops that put elements together in other shapes: cat, stack, flip, roll, repeat, pad, copies of parts.
#include <algorithm>

#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// The list in its common type.
std::vector<Value> promoted(Op& op, std::string_view arg) {
  std::vector<Value> values = op.tensors(arg);
  if (values.empty()) throw CallError(op.name() + ": expected a non-empty list of Tensors");
  ElementType type = ElementType::kInvalid;
  for (const Value& v : values) type = promote(type, v.element());
  for (Value& v : values) v = convert(v, type);
  return values;
}

Value cat(Op& op) {
  std::vector<Value> values = promoted(op, "tensors");
  const Value first = values.front();
  // One-dimensional empty tensors go with anything, as they always have.
  std::erase_if(values, [](const Value& v) { return v.dims() == Dims{0}; });
  if (values.empty()) return first;
  const int64_t dim = wrap_dim(op.integer("dim"), values.front().rank());
  if (values.front().rank() == 0) throw CallError("zero-dimensional tensor (at position 0) cannot be concatenated");
  return concatenate(values, dim);
}

Value stack(Op& op) {
  std::vector<Value> values = promoted(op, "tensors");
  const int64_t dim = wrap_dim(op.integer("dim"), values.front().rank() + 1);
  for (Value& v : values) {
    if (v.dims() != values.front().dims() && v.rank() == values.front().rank())
      throw CallError("stack expects each tensor to be equal size");
    Dims dims = v.dims();
    dims.insert(dims.begin() + dim, 1);
    v = reshape(v, dims);
  }
  return concatenate(values, dim);
}

Value flip(Op& op) {
  Value self = op.tensor("self");
  Dims dims = wrap_dims(op.integers("dims"), self.rank());
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    throw CallError("dim " + std::to_string(*std::adjacent_find(dims.begin(), dims.end())) +
                    " appears multiple times in the list of dims");
  return self.rank() == 0 ? self : reverse(self, dims);
}

Value rolled(Value x, int64_t shift, int64_t dim) {
  const int64_t n = x.dim(static_cast<int>(dim));
  if (n == 0) return x;
  const int64_t cut = ((n - shift % n) % n + n) % n;
  if (cut == 0) return x;
  const Value parts[] = {slice_dim(x, dim, cut, n), slice_dim(x, dim, 0, cut)};
  return concatenate(parts, dim);
}

Value roll(Op& op) {
  Value self = op.tensor("self");
  const Dims& shifts = op.integers("shifts");
  const Dims dims = wrap_dims(op.integers("dims"), self.rank());
  if (shifts.empty()) throw CallError("`shifts` required");
  if (dims.empty() && shifts.size() == 1) return reshape(rolled(flatten(self), shifts[0], 0), self.dims());
  if (dims.size() != shifts.size())
    throw CallError("shifts and dimensions must align. shifts: " + std::to_string(shifts.size()) +
                    ", dims:" + std::to_string(dims.size()));
  if (self.rank() == 0) return self;
  for (size_t i = 0; i < dims.size(); ++i) self = rolled(self, shifts[i], dims[i]);
  return self;
}

Value repeat(Op& op) {
  Value self = op.tensor("self");
  const Dims& repeats = op.integers("repeats");
  const size_t lead = repeats.size() - self.dims().size();
  if (repeats.size() < self.dims().size())
    throw CallError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  // Each dim becomes (repeats, size), which merge into one.
  Dims split, mapping, merged;
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0) throw CallError("Trying to create tensor with negative dimension");
    const int64_t size = i < lead ? 1 : self.dims()[i - lead];
    split.push_back(repeats[i]);
    if (i >= lead) {
      mapping.push_back(static_cast<int64_t>(split.size()));
      split.push_back(size);
    }
    merged.push_back(repeats[i] * size);
  }
  return reshape(broadcast_in_dim(self, split, mapping), merged);
}

Value constant_pad_nd(Op& op) {
  Value self = op.tensor("self");
  const Dims& amounts = op.integers("pad");  // (low, high) from the last dim on
  const size_t rank = self.dims().size();
  if (amounts.size() % 2 != 0 || amounts.size() > 2 * rank)
    throw CallError("Length of pad must be even and no more than twice the number of dimensions of the input");
  Dims low(rank, 0), high(rank, 0);
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    const size_t d = rank - 1 - i;
    low[d] = amounts[2 * i];
    high[d] = amounts[2 * i + 1];
    if (self.dims()[d] + low[d] + high[d] < 0)
      throw CallError("The input size " + std::to_string(self.dims()[d]) + ", plus negative padding " +
                      std::to_string(low[d]) + " and " + std::to_string(high[d]) +
                      " resulted in a negative output size, which is invalid. Check dimension " + std::to_string(d) +
                      " of your input.");
  }
  return pad(self, op.scalar("value", self.element()), low, high);
}

Value narrow_copy(Op& op) {
  Value self = op.tensor("self");
  if (self.rank() == 0) throw CallError("narrow() cannot be applied to a 0-dim tensor.");
  const int64_t dim = wrap_dim(op.integer("dim"), self.rank()), n = self.dim(static_cast<int>(dim));
  const int64_t length = op.integer("length");
  if (length < 0 || length > n)
    throw CallError("narrow(): length must be non-negative and at most the size of the dim");
  Builder& b = op.builder();
  Value start = op.scalar("start", ElementType::kS64);
  start = select(less(start, constant_like(start, 0)), start + constant_like(start, n), start);
  op.context().report_out_of_bounds(
      logical_or(less(start, constant_like(start, 0)), greater(start, constant_like(start, n - length))));
  Dims sizes = self.dims();
  sizes[static_cast<size_t>(dim)] = length;
  std::vector<Value> starts(sizes.size(), constant(b, ElementType::kS64, 0));
  starts[static_cast<size_t>(dim)] = start;
  return dynamic_slice(self, starts, sizes);
}

Results split_with_sizes_copy(Op& op) {
  Value self = op.tensor("self");
  const int64_t dim = wrap_dim(op.integer("dim"), self.rank());
  int64_t at = 0;
  Results parts;
  for (int64_t size : op.integers("split_sizes")) {
    if (size < 0 || at + size > self.dim(static_cast<int>(dim)))
      throw CallError("split_with_sizes expects split_sizes to sum exactly to the size of the dim");
    parts.push_back(slice_dim(self, dim, at, at + size));
    at += size;
  }
  if (at != self.dim(static_cast<int>(dim)))
    throw CallError("split_with_sizes expects split_sizes to sum exactly to the size of the dim");
  return parts;
}

// Each tensor is padded along dim to a multiple of num_chunks and cut into that many rows; the rows of all tensors are
// put one behind the other.
Value chunk_cat(Op& op) {
  std::vector<Value> values = promoted(op, "tensors");
  const int64_t chunks = op.integer("num_chunks");
  if (chunks < 1) throw CallError("_chunk_cat expects positive num_chunks");
  const int64_t dim = wrap_dim(op.integer("dim"), values.front().rank());
  for (Value& v : values) {
    const Dims dims = v.dims();
    const int64_t n = dims.at(static_cast<size_t>(dim));
    Dims low(dims.size(), 0), high = low;
    high[static_cast<size_t>(dim)] = (n + chunks - 1) / chunks * chunks - n;
    v = pad(v, constant(op.builder(), v.element(), 0), low, high);
    Dims rows(dims.begin(), dims.begin() + dim);
    int64_t outer = 1;
    for (int64_t d : rows) outer *= d;
    if (outer == 0) throw CallError("_chunk_cat expects non-empty tensors");
    rows.push_back(chunks);
    rows.push_back(v.numel() / outer / chunks);
    v = reshape(v, rows);
  }
  return concatenate(values, dim + 1);
}

}  // namespace

void register_shape(Registry& r) {
  r.add("cat", cat);
  r.add("stack", stack);
  r.add("flip", flip);
  r.add("roll", roll);
  r.add("repeat", repeat);
  r.add("constant_pad_nd", constant_pad_nd);
  r.add("narrow_copy", narrow_copy).runtime({"start"});
  r.add("split_with_sizes_copy", split_with_sizes_copy);
  r.add("_chunk_cat", chunk_cat);
}

}  // namespace torch_tpu::lowering
