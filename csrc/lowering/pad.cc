// Reflection and replication padding, dimension by dimension. Padding is ATen's: pairs from the last dimension on;
// negative amounts crop.
#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

enum class Mode { kReflect, kReplicate };

Value pad_dim(Value x, int64_t dim, int64_t low, int64_t high, Mode mode) {
  const int64_t size = x.dim(static_cast<int>(dim));
  auto edge = [&](int64_t at, int64_t count) {
    Dims dims = x.dims();
    dims[static_cast<size_t>(dim)] = count;
    return broadcast_in_dim(slice_dim(x, dim, at, at + 1), dims, all_dims(x.rank()));
  };
  std::vector<Value> parts;
  if (low > 0) parts.push_back(mode == Mode::kReflect ? reverse(slice_dim(x, dim, 1, low + 1), {dim}) : edge(0, low));
  parts.push_back(slice_dim(x, dim, std::max<int64_t>(-low, 0), size + std::min<int64_t>(high, 0)));
  if (high > 0)
    parts.push_back(mode == Mode::kReflect ? reverse(slice_dim(x, dim, size - 1 - high, size - 1), {dim})
                                           : edge(size - 1, high));
  return concatenate(parts, dim);
}

// The transpose: `size` is the dimension's size before padding.
Value pad_dim_backward(Value grad, int64_t dim, int64_t low, int64_t high, int64_t size, Mode mode) {
  const int64_t padded = grad.dim(static_cast<int>(dim));
  Value zero = constant(grad.builder(), grad.element(), 0);
  // `part` at position `at` of the input.
  auto place = [&](Value part, int64_t at) {
    Dims before(grad.dims().size(), 0), after = before;
    before[static_cast<size_t>(dim)] = at;
    after[static_cast<size_t>(dim)] = size - at - part.dim(static_cast<int>(dim));
    return pad(part, zero, before, after);
  };
  Value sum = place(slice_dim(grad, dim, std::max<int64_t>(low, 0), padded - std::max<int64_t>(high, 0)),
                    std::max<int64_t>(-low, 0));
  auto fold = [&](Value part, int64_t reflected_at, int64_t edge) {
    if (mode == Mode::kReflect) return place(reverse(part, {dim}), reflected_at);
    return place(keep_dims(reduce_sum(part, {dim}), part.dims(), {dim}), edge);
  };
  if (low > 0) sum = add(sum, fold(slice_dim(grad, dim, 0, low), 1, 0));
  if (high > 0) sum = add(sum, fold(slice_dim(grad, dim, padded - high, padded), size - 1 - high, size - 1));
  return sum;
}

template <Mode mode, int64_t n>
Value forward(Op& op) {
  Value x = op.tensor("self");
  const Dims& padding = op.integers("padding");
  for (int64_t i = 0; i < n; ++i) {
    const size_t at = static_cast<size_t>(2 * i);
    x = pad_dim(x, x.rank() - 1 - i, padding[at], padding[at + 1], mode);
  }
  return x;
}

template <Mode mode, int64_t n>
Value backward(Op& op) {
  const ElementType t = op.element("grad_output");
  Value grad = op.tensor("grad_output", opmath_type(t));
  const Dims& input = op.dims("self");
  const Dims& padding = op.integers("padding");
  for (int64_t i = n; i-- > 0;) {
    const size_t at = static_cast<size_t>(2 * i);
    const int64_t dim = grad.rank() - 1 - i;
    grad = pad_dim_backward(grad, dim, padding[at], padding[at + 1], input[static_cast<size_t>(dim)], mode);
  }
  return convert(grad, t);
}

template <Mode mode, int64_t n>
void add_mode(Registry& r, const std::string& name) {
  r.add(name, forward<mode, n>);
  r.add(name + "_backward", backward<mode, n>);
}

}  // namespace

void register_pad(Registry& r) {
  add_mode<Mode::kReflect, 1>(r, "reflection_pad1d");
  add_mode<Mode::kReflect, 2>(r, "reflection_pad2d");
  add_mode<Mode::kReflect, 3>(r, "reflection_pad3d");
  add_mode<Mode::kReplicate, 1>(r, "replication_pad1d");
  add_mode<Mode::kReplicate, 2>(r, "replication_pad2d");
  add_mode<Mode::kReplicate, 3>(r, "replication_pad3d");
}

}  // namespace torch_tpu::lowering
