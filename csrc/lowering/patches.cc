// Ops that rearrange images: im2col and col2im, pixel shuffles, channel shuffles.
#include "lowering/helpers.h"
#include "lowering/registry.h"
#include "lowering/windows.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

SlidingWindow patch_window(const Op& op, const Dims& image) {
  SlidingWindow w;
  w.kernel = expand_ints(op.integers("kernel_size"), 2);
  w.stride = expand_ints(op.integers("stride"), 2);
  w.dilation = expand_ints(op.integers("dilation"), 2);
  w.low = expand_ints(op.integers("padding"), 2);
  w.input = image;
  for (size_t i = 0; i < 2; ++i)
    w.output.push_back((image[i] + 2 * w.low[i] - w.dilation[i] * (w.kernel[i] - 1) - 1) / w.stride[i] + 1);
  return w;
}

// [n?, c, h, w] -> [n?, c * kh * kw, positions]
Value im2col(Op& op) {
  Value x = op.tensor("self");
  const bool batched = x.rank() == 4;
  if (!batched) x = reshape(x, {1, x.dim(0), x.dim(1), x.dim(2)});
  const SlidingWindow w = patch_window(op, {x.dim(2), x.dim(3)});
  const int64_t n = x.dim(0), c = x.dim(1), blocks = w.output[0] * w.output[1];
  Dims result{n, c * w.positions(), blocks};
  if (!batched) result.erase(result.begin());
  if (n * c * blocks == 0) return constant(op.builder(), x.element(), 0, result);
  Value padded = pad_windows(x, w, constant(op.builder(), x.element(), 0));
  std::vector<Value> columns;
  for (const Dims& offset : kernel_offsets(w.kernel))
    columns.push_back(reshape(window_position(padded, w, offset), {n, c, 1, blocks}));
  return reshape(concatenate(columns, 2), result);
}

Value col2im(Op& op) {
  const Dims size = expand_ints(op.integers("output_size"), 2);
  const SlidingWindow w = patch_window(op, size);
  const ElementType t = op.element("self");
  Value x = op.tensor("self", opmath_type(t));
  const bool batched = x.rank() == 3;
  const int64_t n = batched ? x.dim(0) : 1, c = x.dim(batched ? 1 : 0) / w.positions();
  Dims result{n, c, size[0], size[1]};
  if (!batched) result.erase(result.begin());
  if (x.numel() == 0) return constant(op.builder(), t, 0, result);
  x = reshape(x, {n, c, w.positions(), w.output[0] * w.output[1]});
  Value sum;
  int64_t position = 0;
  for (const Dims& offset : kernel_offsets(w.kernel)) {
    Value column = reshape(slice_dim(x, 2, position, position + 1), {n, c, w.output[0], w.output[1]});
    ++position;
    Value image = unwindow_position(column, w, offset);
    if (is_bool(t)) {
      sum = sum.defined() ? logical_or(sum, image) : image;
    } else {
      sum = sum.defined() ? add(sum, image) : image;
    }
  }
  return convert(reshape(sum, result), t);
}

// x [..., a, b, c] with its last three dims taken apart, permuted and put together.
Value rearrange(Value x, const Dims& split, const Dims& permutation, const Dims& result) {
  const int64_t lead = x.rank() - 3;
  Dims wide(x.dims().begin(), x.dims().begin() + lead), order = all_dims(lead), merged = wide;
  wide.insert(wide.end(), split.begin(), split.end());
  for (int64_t p : permutation) order.push_back(lead + p);
  merged.insert(merged.end(), result.begin(), result.end());
  return reshape(stablehlo::transpose(reshape(x, wide), order), merged);
}

Value pixel_shuffle(Op& op) {
  Value x = op.tensor("self");
  const int64_t f = op.integer("upscale_factor"), r = x.rank();
  const int64_t h = x.dim(static_cast<int>(r - 2)), w = x.dim(static_cast<int>(r - 1));
  const int64_t c = x.dim(static_cast<int>(r - 3)) / (f * f);
  return rearrange(x, {c, f, f, h, w}, {0, 3, 1, 4, 2}, {c, h * f, w * f});
}

Value pixel_unshuffle(Op& op) {
  Value x = op.tensor("self");
  const int64_t f = op.integer("downscale_factor"), r = x.rank();
  const int64_t h = x.dim(static_cast<int>(r - 2)) / f, w = x.dim(static_cast<int>(r - 1)) / f;
  const int64_t c = x.dim(static_cast<int>(r - 3));
  return rearrange(x, {c, h, f, w, f}, {0, 2, 4, 1, 3}, {c * f * f, h, w});
}

Value channel_shuffle(Op& op) {
  Value x = op.tensor("self");
  if (x.numel() == 0) return x;
  const int64_t groups = op.integer("groups"), n = x.dim(0), c = x.dim(1);
  Value split = reshape(x, {n, groups, c / groups, x.numel() / (n * c)});
  return reshape(stablehlo::transpose(split, {0, 2, 1, 3}), x.dims());
}

}  // namespace

void register_patches(Registry& r) {
  r.add("im2col", im2col);
  r.add("col2im", col2im);
  r.add("pixel_shuffle", pixel_shuffle);
  r.add("pixel_unshuffle", pixel_unshuffle);
  r.add("channel_shuffle", channel_shuffle);
}

}  // namespace torch_tpu::lowering
