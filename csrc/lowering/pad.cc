// Reflection and replication padding, dimension by dimension. Padding is ATen's: pairs from the last dimension on;
// negative amounts crop.
#include <algorithm>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

enum class Mode { kReflect, kReplicate };

struct Range {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};

// A dimension's result from position `all.begin` of the input to `all.end`: what lies before the input, in it, after
// it. Where one end crops more than there is, the other's padding is all that is left.
struct Padding {
  Range all, before, inside, after;
  Padding(int64_t size, int64_t low, int64_t high)
      : all{-low, size + high},
        before{all.begin, std::min<int64_t>(0, all.end)},
        inside{std::max<int64_t>(0, all.begin), std::min(size, all.end)},
        after{std::max(size, all.begin), all.end} {}
};

// The input's positions that a range outside it mirrors; they come in reverse.
Range mirrored(const Range& outside, int64_t axis) {
  return {2 * axis - outside.end + 1, 2 * axis - outside.begin + 1};
}

Value pad_dim(Value x, int64_t dim, int64_t low, int64_t high, Mode mode) {
  const int64_t size = x.dim(static_cast<int>(dim));
  const Padding padding(size, low, high);
  auto of = [&](const Range& r) { return slice_dim(x, dim, r.begin, r.end); };
  auto outside = [&](const Range& r, int64_t edge) {
    if (mode == Mode::kReflect) return reverse(of(mirrored(r, edge)), {dim});
    Dims dims = x.dims();
    dims[static_cast<size_t>(dim)] = r.size();
    return broadcast_in_dim(of({edge, edge + 1}), dims, all_dims(x.rank()));
  };
  std::vector<Value> parts;
  if (!padding.before.empty()) parts.push_back(outside(padding.before, 0));
  if (!padding.inside.empty()) parts.push_back(of(padding.inside));
  if (!padding.after.empty()) parts.push_back(outside(padding.after, size - 1));
  return parts.empty() ? of({0, 0}) : concatenate(parts, dim);
}

// The transpose: `size` is the dimension's size before padding.
Value pad_dim_backward(Value grad, int64_t dim, int64_t low, int64_t high, int64_t size, Mode mode) {
  const Padding padding(size, low, high);
  Value zero = constant(grad.builder(), grad.element(), 0);
  Dims dims = grad.dims();
  dims[static_cast<size_t>(dim)] = size;
  Value sum = broadcast_to(zero, dims);
  auto add_at = [&](Value part, int64_t at) {
    Dims before(dims.size(), 0), after = before;
    before[static_cast<size_t>(dim)] = at;
    after[static_cast<size_t>(dim)] = size - at - part.dim(static_cast<int>(dim));
    sum = add(sum, pad(part, zero, before, after));
  };
  auto of = [&](const Range& r) {
    return slice_dim(grad, dim, r.begin - padding.all.begin, r.end - padding.all.begin);
  };
  auto outside = [&](const Range& r, int64_t edge) {
    if (r.empty()) return;
    if (mode == Mode::kReflect) return add_at(reverse(of(r), {dim}), mirrored(r, edge).begin);
    Value part = of(r);
    add_at(keep_dims(reduce_sum(part, {dim}), part.dims(), {dim}), edge);
  };
  if (!padding.inside.empty()) add_at(of(padding.inside), padding.inside.begin);
  outside(padding.before, 0);
  outside(padding.after, size - 1);
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
