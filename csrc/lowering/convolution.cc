// Convolutions: forward, gradients to input and weight; a transposed convolution is the gradient to the input of a
// plain one. Three forms of each, which give the same numbers:
//   convolution  XLA's own op: on TPU but for small grouped and 3-D ones, and on CPU for large images;
//   dot          im2col and one matrix product: for small images on XLA's CPU backend (several times faster there), for
//                what libtpu compiles slowly, and for element types that XLA's convolutions do not take;
//   taps         one multiply-add a kernel position: depthwise convolutions on CPU, small ones on TPU.
#include <algorithm>

#include "lowering/contraction.h"
#include "lowering/helpers.h"
#include "lowering/registry.h"
#include "lowering/windows.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// The plain convolution: `in` channels and w.input sizes to `out` channels and w.output sizes.
struct Convolution {
  const Op& op;
  SlidingWindow w;
  int64_t batch, in, out, groups;
  ElementType element, accumulate;

  int64_t group_in() const { return in / groups; }
  int64_t group_out() const { return out / groups; }
  int64_t output_pixels() const {
    int64_t n = 1;
    for (int64_t d : w.output) n *= d;
    return n;
  }
  Dims with_channels(int64_t a, int64_t b, const Dims& spatial) const {
    Dims dims{a, b};
    dims.insert(dims.end(), spatial.begin(), spatial.end());
    return dims;
  }
  bool is_empty() const {
    return batch == 0 || in == 0 || out == 0 || w.positions() == 0 || output_pixels() == 0 ||
           std::find(w.input.begin(), w.input.end(), 0) != w.input.end();
  }
};

enum class Form { kConvolution, kDot, kTaps };

enum class Direction { kForward, kInputGradient, kWeightGradient };

Form choose_form(const Convolution& c, Direction direction) {
  // Measured on XLA's CPU backend: at 2x2 outputs the dot is up to 100 times faster, at 4x4 equal or better, above that
  // writing the patches costs more than it gains.
  constexpr int64_t kSmallImage = 4 * 4;
  constexpr int64_t kMaxPatchBytes = int64_t{256} << 20;
  if (!is_floating(c.element)) return Form::kDot;
  const bool depthwise = c.groups > 1 && c.group_in() == 1;
  const int64_t patch_bytes =
      c.batch * c.output_pixels() * c.in * c.w.positions() * static_cast<int64_t>(byte_size(c.accumulate));
  if (c.op.target().is_tpu()) {
    // XLA unrolls small convolutions in f32 over three dims or groups, and takes up to a minute to compile them.
    constexpr int64_t kSmallPatchBytes = int64_t{16} << 20, kMaxPositions = 128;
    const bool unrolled = c.w.rank() == 3 || c.groups > 1;
    if (!unrolled || patch_bytes > kSmallPatchBytes || c.w.positions() > kMaxPositions) return Form::kConvolution;
    return depthwise ? Form::kTaps : Form::kDot;
  }
  if (depthwise) return Form::kTaps;
  if (patch_bytes > kMaxPatchBytes) return Form::kConvolution;
  // Batch groups, which a grouped weight gradient needs, are 10 times slower than one product a group.
  const bool grouped_weight = c.groups > 1 && direction == Direction::kWeightGradient;
  return c.output_pixels() <= kSmallImage || c.w.positions() == 1 || grouped_weight ? Form::kDot : Form::kConvolution;
}

// [a, b, spatial...] <-> [b, a, spatial...]
Value swap_leading(Value x) {
  Dims permutation = all_dims(x.rank());
  std::swap(permutation[0], permutation[1]);
  return stablehlo::transpose(x, permutation);
}

DotPrecision precision(const Convolution& c) {
  if (is_reduced_float(c.element)) return DotPrecision::kDefault;
  return c.element == ElementType::kF32 ? c.op.numerics().matmul_precision : DotPrecision::kHighest;
}

Dims spatial_dims(const Convolution& c) {
  Dims dims = all_dims(static_cast<int64_t>(c.w.rank()));
  for (int64_t& d : dims) d += 2;
  return dims;
}

// Operands of XLA's convolution: on CPU widened first, as its convolutions accumulate in their operands' type.
Value conv_operand(const Convolution& c, Value x) { return c.op.target().is_cpu() ? convert(x, c.accumulate) : x; }

// ---- im2col

// x [batch, in, ...] -> [groups, group_in * positions, batch * pixels], rows in the weight's own order.
Value patches(const Convolution& c, Value x) {
  x = swap_leading(x);
  Value padded = pad_windows(x, c.w, constant(x.builder(), x.element(), 0));
  std::vector<Value> columns;
  const int64_t pixels = c.batch * c.output_pixels();
  for (const Dims& offset : kernel_offsets(c.w.kernel))
    columns.push_back(reshape(window_position(padded, c.w, offset), {c.in, 1, pixels}));
  return reshape(concatenate(columns, 1), {c.groups, c.group_in() * c.w.positions(), pixels});
}

// [batch, out, ...] -> [groups, group_out, batch * pixels]
Value output_matrix(const Convolution& c, Value y) {
  return reshape(swap_leading(y), {c.groups, c.group_out(), c.batch * c.output_pixels()});
}

Value weight_matrix(const Convolution& c, Value weight) {
  return reshape(weight, {c.groups, c.group_out(), c.group_in() * c.w.positions()});
}

// One product a group, contracting dimension `l` of the left and `r` of the right matrices.
Value group_product(const Convolution& c, Value left, Value right, int64_t l, int64_t r) {
  if (c.groups > 1) return contract(c.op, left, right, {{0}, {0}, {l}, {r}});
  left = reshape(left, {left.dim(1), left.dim(2)});
  right = reshape(right, {right.dim(1), right.dim(2)});
  return contract(c.op, left, right, {{}, {}, {l - 1}, {r - 1}});
}

Value forward_dot(const Convolution& c, Value x, Value weight) {
  Value y = group_product(c, weight_matrix(c, weight), patches(c, x), 2, 1);
  return swap_leading(reshape(y, c.with_channels(c.out, c.batch, c.w.output)));
}

Value input_gradient_dot(const Convolution& c, Value grad, Value weight) {
  Value columns = group_product(c, weight_matrix(c, weight), output_matrix(c, grad), 1, 1);
  columns = reshape(columns, {c.in, c.w.positions(), c.batch * c.output_pixels()});
  Value sum;
  int64_t position = 0;
  for (const Dims& offset : kernel_offsets(c.w.kernel)) {
    Value column = reshape(slice_dim(columns, 1, position, position + 1), c.with_channels(c.in, c.batch, c.w.output));
    ++position;
    Value image = unwindow_position(column, c.w, offset);
    sum = sum.defined() ? add(sum, image) : image;
  }
  return swap_leading(sum);
}

Value weight_gradient_dot(const Convolution& c, Value x, Value grad) {
  Value g = group_product(c, output_matrix(c, grad), patches(c, x), 2, 2);
  return reshape(g, c.with_channels(c.out, c.group_in(), c.w.kernel));
}

// ---- depthwise: group_in == 1

// weight [out, 1, kernel...] at one position, over [batch, in, group_out, spatial...].
Value tap_weight(const Convolution& c, Value weight, int64_t position, const Dims& dims) {
  Value flat = reshape(weight, {c.in, c.group_out(), c.w.positions()});
  Value tap = reshape(slice_dim(flat, 2, position, position + 1), {c.in, c.group_out()});
  return broadcast_in_dim(tap, dims, {1, 2});
}

Dims depthwise_dims(const Convolution& c, const Dims& spatial) {
  Dims dims{c.batch, c.in, c.group_out()};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// [batch, in, spatial...] repeated over group_out.
Value over_multiplier(Value x, const Dims& dims) {
  Dims dimensions;
  for (int64_t i = 0; i < x.rank(); ++i) dimensions.push_back(i < 2 ? i : i + 1);
  return broadcast_in_dim(x, dims, dimensions);
}

Value forward_taps(const Convolution& c, Value x, Value weight) {
  x = convert(x, c.accumulate);
  weight = convert(weight, c.accumulate);
  Value padded = pad_windows(x, c.w, constant(x.builder(), x.element(), 0));
  const Dims dims = depthwise_dims(c, c.w.output);
  Value sum;
  int64_t position = 0;
  for (const Dims& offset : kernel_offsets(c.w.kernel)) {
    Value term =
        multiply(over_multiplier(window_position(padded, c.w, offset), dims), tap_weight(c, weight, position++, dims));
    sum = sum.defined() ? add(sum, term) : term;
  }
  return reshape(sum, c.with_channels(c.batch, c.out, c.w.output));
}

Value input_gradient_taps(const Convolution& c, Value grad, Value weight) {
  const Dims dims = depthwise_dims(c, c.w.output);
  grad = reshape(convert(grad, c.accumulate), dims);
  weight = convert(weight, c.accumulate);
  Value sum;
  int64_t position = 0;
  for (const Dims& offset : kernel_offsets(c.w.kernel)) {
    Value term = multiply(grad, tap_weight(c, weight, position++, dims));
    term = unwindow_position(reshape(reduce_sum(term, {2}), c.with_channels(c.batch, c.in, c.w.output)), c.w, offset);
    sum = sum.defined() ? add(sum, term) : term;
  }
  return sum;
}

Value weight_gradient_taps(const Convolution& c, Value x, Value grad) {
  const Dims dims = depthwise_dims(c, c.w.output);
  grad = reshape(convert(grad, c.accumulate), dims);
  x = convert(x, c.accumulate);
  Value padded = pad_windows(x, c.w, constant(x.builder(), x.element(), 0));
  Dims summed{0};
  for (size_t i = 0; i < c.w.rank(); ++i) summed.push_back(static_cast<int64_t>(i) + 3);
  std::vector<Value> taps;
  for (const Dims& offset : kernel_offsets(c.w.kernel)) {
    Value product = multiply(over_multiplier(window_position(padded, c.w, offset), dims), grad);
    taps.push_back(reshape(reduce_sum(product, summed), {c.in, c.group_out(), 1}));
  }
  return reshape(concatenate(taps, 2), c.with_channels(c.out, 1, c.w.kernel));
}

// ---- XLA's convolution

// Padding after dimension i that makes windows of `reach` at `stride` over `size` elements give `results` of them.
int64_t high_padding(int64_t results, int64_t stride, int64_t reach, int64_t size, int64_t low) {
  return (results - 1) * stride + reach - size - low;
}

ConvolutionDims plain_dims(const Convolution& c) {
  ConvolutionDims d;
  d.input_spatial = d.kernel_spatial = d.output_spatial = spatial_dims(c);
  return d;
}

Value forward_convolution(const Convolution& c, Value x, Value weight) {
  ConvolutionDims d = plain_dims(c);
  d.window_strides = c.w.stride;
  d.rhs_dilation = c.w.dilation;
  d.feature_group_count = c.groups;
  for (size_t i = 0; i < c.w.rank(); ++i)
    d.padding.push_back(
        {c.w.low[i], high_padding(c.w.output[i], c.w.stride[i], (c.w.kernel[i] - 1) * c.w.dilation[i] + 1, c.w.input[i],
                                  c.w.low[i])});
  return convolution(conv_operand(c, x), conv_operand(c, weight), d, precision(c), c.accumulate);
}

Value input_gradient_convolution(const Convolution& c, Value grad, Value weight) {
  ConvolutionDims d = plain_dims(c);
  d.lhs_dilation = c.w.stride;
  d.rhs_dilation = c.w.dilation;
  d.feature_group_count = c.groups;
  for (size_t i = 0; i < c.w.rank(); ++i) {
    const int64_t reach = (c.w.kernel[i] - 1) * c.w.dilation[i] + 1;
    const int64_t low = reach - 1 - c.w.low[i];
    d.padding.push_back({low, high_padding(c.w.input[i], 1, reach, (c.w.output[i] - 1) * c.w.stride[i] + 1, low)});
  }
  // The kernel turned around, with input and output channels swapped within each group.
  weight = reverse(conv_operand(c, weight), spatial_dims(c));
  if (c.groups > 1) {
    Dims split{c.groups, c.group_out(), c.group_in()};
    split.insert(split.end(), c.w.kernel.begin(), c.w.kernel.end());
    Dims permutation = all_dims(static_cast<int64_t>(split.size()));
    std::swap(permutation[0], permutation[1]);
    weight = reshape(stablehlo::transpose(reshape(weight, split), permutation),
                     c.with_channels(c.group_out(), c.in, c.w.kernel));
  }
  d.kernel_input_feature = 0;
  d.kernel_output_feature = 1;
  return convolution(conv_operand(c, grad), weight, d, precision(c), c.accumulate);
}

Value weight_gradient_convolution(const Convolution& c, Value x, Value grad) {
  // Batch is what is contracted: channels take its place.
  ConvolutionDims d = plain_dims(c);
  d.input_batch = 1;
  d.input_feature = 0;
  d.kernel_input_feature = 0;
  d.kernel_output_feature = 1;
  d.output_batch = 1;
  d.output_feature = 0;
  d.window_strides = c.w.dilation;
  d.rhs_dilation = c.w.stride;
  d.batch_group_count = c.groups;
  for (size_t i = 0; i < c.w.rank(); ++i)
    d.padding.push_back({c.w.low[i], high_padding(c.w.kernel[i], c.w.dilation[i],
                                                  (c.w.output[i] - 1) * c.w.stride[i] + 1, c.w.input[i], c.w.low[i])});
  return convolution(conv_operand(c, x), conv_operand(c, grad), d, precision(c), c.accumulate);
}

// ---- the three maps

Value forward(const Convolution& c, Value x, Value weight) {
  if (c.is_empty()) return constant(c.op.builder(), c.accumulate, 0, c.with_channels(c.batch, c.out, c.w.output));
  switch (choose_form(c, Direction::kForward)) {
    case Form::kDot:
      return forward_dot(c, x, weight);
    case Form::kTaps:
      return forward_taps(c, x, weight);
    default:
      return forward_convolution(c, x, weight);
  }
}

Value input_gradient(const Convolution& c, Value grad, Value weight) {
  if (c.is_empty()) return constant(c.op.builder(), c.accumulate, 0, c.with_channels(c.batch, c.in, c.w.input));
  switch (choose_form(c, Direction::kInputGradient)) {
    case Form::kDot:
      return input_gradient_dot(c, grad, weight);
    case Form::kTaps:
      return input_gradient_taps(c, grad, weight);
    default:
      return input_gradient_convolution(c, grad, weight);
  }
}

Value weight_gradient(const Convolution& c, Value x, Value grad) {
  if (c.is_empty()) return constant(c.op.builder(), c.accumulate, 0, c.with_channels(c.out, c.group_in(), c.w.kernel));
  switch (choose_form(c, Direction::kWeightGradient)) {
    case Form::kDot:
      return weight_gradient_dot(c, x, grad);
    case Form::kTaps:
      return weight_gradient_taps(c, x, grad);
    default:
      return weight_gradient_convolution(c, x, grad);
  }
}

// ---- ATen's arguments

Dims tail(const Dims& dims) { return Dims(dims.begin() + 2, dims.end()); }

int64_t plain_output(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t span = input + 2 * padding - dilation * (kernel - 1) - 1;
  return span < 0 ? 0 : span / stride + 1;
}

// The plain convolution behind a call: for a transposed one, from its result to its input. `image` is the input of the
// call, `result` the sizes of its result.
Convolution describe(const Op& op, const Dims& image, const Dims& weight, const Dims& result) {
  const size_t n = image.size() - 2;
  const bool transposed = op.boolean("transposed");
  SlidingWindow w;
  w.kernel = tail(weight);
  w.stride = expand_ints(op.integers("stride"), n);
  w.dilation = expand_ints(op.integers("dilation"), n);
  w.low = expand_ints(op.integers("padding"), n);
  w.input = transposed ? result : tail(image);
  w.output = transposed ? tail(image) : result;
  const int64_t groups = op.integer("groups");
  const ElementType element = op.element("weight");
  // weight is [out, in / groups, ...] of the plain convolution in both cases.
  return {op, w, image[0], weight[1] * groups, weight[0], groups, element, accumulation_type(op, element)};
}

Dims result_spatial(const Op& op, const Dims& image, const Dims& weight) {
  const size_t n = image.size() - 2;
  const Dims stride = expand_ints(op.integers("stride"), n), padding = expand_ints(op.integers("padding"), n),
             dilation = expand_ints(op.integers("dilation"), n);
  Dims result;
  for (size_t i = 0; i < n; ++i) {
    if (!op.boolean("transposed")) {
      result.push_back(plain_output(image[i + 2], weight[i + 2], stride[i], padding[i], dilation[i]));
    } else {
      const Dims extra = expand_ints(op.integers("output_padding"), n);
      result.push_back(std::max<int64_t>(
          (image[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight[i + 2] - 1) + extra[i] + 1, 0));
    }
  }
  return result;
}

Value convolution_forward(Op& op) {
  const Dims& image = op.dims("input");
  const Convolution c = describe(op, image, op.dims("weight"), result_spatial(op, image, op.dims("weight")));
  Value x = op.tensor("input"), weight = op.tensor("weight");
  Value y = op.boolean("transposed") ? input_gradient(c, x, weight) : forward(c, x, weight);
  if (op.has("bias")) y = add(y, broadcast_in_dim(op.tensor("bias", y.element()), y.dims(), {1}));
  return convert(y, x.element());
}

Results convolution_backward(Op& op) {
  const Dims& grad_dims = op.dims("grad_output");
  const Convolution c = describe(op, op.dims("input"), op.dims("weight"), tail(grad_dims));
  const std::vector<bool>& mask = op.booleans("output_mask");
  const bool transposed = op.boolean("transposed");
  Value grad = op.tensor("grad_output");
  const ElementType element = grad.element();
  Results r(3);
  if (mask[0]) {
    Value weight = op.tensor("weight");
    r[0] = convert(transposed ? forward(c, grad, weight) : input_gradient(c, grad, weight), element);
  }
  if (mask[1]) {
    Value x = op.tensor("input");
    r[1] = convert(transposed ? weight_gradient(c, grad, x) : weight_gradient(c, x, grad), op.element("weight"));
  }
  if (mask[2]) {
    Dims summed = all_dims(grad.rank());
    summed.erase(summed.begin() + 1);
    r[2] = convert(sum_opmath(grad, summed), element);
  }
  return r;
}

}  // namespace

void register_convolution(Registry& r) {
  r.add("convolution_overrideable", convolution_forward).image_format({"input", "weight"});
  r.add("convolution_backward_overrideable", convolution_backward).image_format({"input", "weight"});
  register_convolution_slow(r);
}

}  // namespace torch_tpu::lowering
