// Interpolation. All modes are separable: one host-made table of (index, weight) a dimension; a gradient is the
// transposed table.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/registry.h"
#include "lowering/windows.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

enum class Mode { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialias, kCubicAntialias, kLanczosAntialias };

constexpr const char* kScaleNames[3][3] = {
    {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};

// Tables in ATen's own arithmetic: T is float, or double for f64 tensors.
template <typename T>
struct Tables {
  int64_t input, output;
  double given_scale;  // output / input as the caller says, 0 if unsaid
  bool align_corners;

  T scale() const {
    if (align_corners) return output > 1 ? static_cast<T>(input - 1) / static_cast<T>(output - 1) : T(0);
    return given_scale > 0 ? static_cast<T>(1.0 / given_scale) : static_cast<T>(input) / static_cast<T>(output);
  }

  T source(int64_t o, bool cubic) const {
    if (align_corners) return scale() * static_cast<T>(o);
    const T s = scale() * (static_cast<T>(o) + T(0.5)) - T(0.5);
    return !cubic && s < 0 ? T(0) : s;
  }

  std::vector<std::pair<int64_t, double>> nearest(int64_t o, bool exact) const {
    if (!exact && output == input) return {{o, 1}};
    if (!exact && output == 2 * input) return {{o / 2, 1}};
    const T at = exact ? (static_cast<T>(o) + T(0.5)) * scale() : static_cast<T>(o) * scale();
    return {{std::min(static_cast<int64_t>(std::floor(at)), input - 1), 1}};
  }

  std::vector<std::pair<int64_t, double>> linear(int64_t o) const {
    if (output == input) return {{o, 1}};
    const T s = source(o, false);
    const int64_t first = std::min(static_cast<int64_t>(s), input - 1), second = std::min(first + 1, input - 1);
    const T w = std::min(std::max(s - static_cast<T>(first), T(0)), T(1));
    return {{first, static_cast<double>(T(1) - w)}, {second, static_cast<double>(w)}};
  }

  // Keys' kernel at distances inside and outside of 1.
  static T cubic_near(T x, T a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
  static T cubic_far(T x, T a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

  std::vector<std::pair<int64_t, double>> cubic(int64_t o) const {
    const T s = source(o, true), a = T(-0.75);
    const int64_t base = static_cast<int64_t>(std::floor(s));
    const T t = std::min(std::max(s - static_cast<T>(base), T(0)), T(1));
    const T weights[4] = {cubic_far(t + 1, a), cubic_near(t, a), cubic_near(1 - t, a), cubic_far(2 - t, a)};
    std::vector<std::pair<int64_t, double>> taps;
    for (int64_t i = 0; i < 4; ++i)
      taps.push_back({std::clamp<int64_t>(base - 1 + i, 0, input - 1), static_cast<double>(weights[i])});
    return taps;
  }

  static T sinc(T x) {
    x *= std::numbers::pi_v<T>;
    return x == 0 ? T(1) : std::sin(x) / x;
  }

  // A filter at a distance below its half width.
  static T filter(Mode mode, T x) {
    switch (mode) {
      case Mode::kCubicAntialias:
        return x < 1 ? cubic_near(x, T(-0.5)) : cubic_far(x, T(-0.5));
      case Mode::kLanczosAntialias:
        return sinc(x) * sinc(x / 3);
      default:
        return 1 - x;
    }
  }

  std::vector<std::pair<int64_t, double>> antialias(int64_t o, Mode mode) const {
    const T s = scale(), half = mode == Mode::kLinearAntialias ? T(1) : mode == Mode::kCubicAntialias ? T(2) : T(3);
    const T support = s >= 1 ? half * s : half, inverse = s >= 1 ? 1 / s : T(1);
    const T center = s * (static_cast<T>(o) + T(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + T(0.5)), input);
    std::vector<T> weights;
    T total = 0;
    for (int64_t i = first; i < end; ++i) {
      const T distance = std::abs((static_cast<T>(i) - center + T(0.5)) * inverse);
      weights.push_back(distance < half ? filter(mode, distance) : T(0));
      total += weights.back();
    }
    std::vector<std::pair<int64_t, double>> taps;
    for (int64_t i = first; i < end; ++i) {
      const T w = weights[static_cast<size_t>(i - first)];
      taps.push_back({i, static_cast<double>(total != 0 ? w / total : w)});
    }
    return taps;
  }

  Resampling make(Mode mode) const {
    Resampling r;
    r.input = input;
    for (int64_t o = 0; o < output; ++o) switch (mode) {
        case Mode::kNearest:
          r.taps.push_back(nearest(o, false));
          break;
        case Mode::kNearestExact:
          r.taps.push_back(nearest(o, true));
          break;
        case Mode::kLinear:
          r.taps.push_back(linear(o));
          break;
        case Mode::kCubic:
          r.taps.push_back(cubic(o));
          break;
        default:
          r.taps.push_back(antialias(o, mode));
          break;
      }
    return r;
  }
};

Resampling table(const Op& op, Mode mode, size_t n, size_t i, int64_t input, int64_t output, ElementType t) {
  const char* scale_name = kScaleNames[n - 1][i];
  const double given = op.has(scale_name) ? op.constant_real(scale_name) : 0;
  const bool align = op.arguments().contains("align_corners") && op.boolean("align_corners");
  // ATen finds nearest neighbours in float whatever the type; bytes have their weights from double.
  if ((t == ElementType::kF64 || t == ElementType::kU8) && mode != Mode::kNearest && mode != Mode::kNearestExact)
    return Tables<double>{input, output, given, align}.make(mode);
  return Tables<float>{input, output, given, align}.make(mode);
}

bool is_nearest(Mode mode) { return mode == Mode::kNearest || mode == Mode::kNearestExact; }

void check_type(const Op& op, ElementType t) {
  if (!is_floating(t) && t != ElementType::kU8)
    throw Unsupported(op.name() + ": not implemented for '" + name_of(t) + "'");
}

// ATen interpolates bytes in fixed point, with weights of 16 bits and a rounding to bytes after each dimension. Turns
// the weights into integers in place and returns their number of fractional bits.
int quantize(Resampling& r) {
  double largest = 0;
  for (auto& taps : r.taps) {
    std::vector<std::pair<int64_t, double>> merged;  // taps that the edge has clamped onto one element
    for (auto tap : taps) {
      if (!merged.empty() && merged.back().first == tap.first) {
        merged.back().second += tap.second;
      } else {
        merged.push_back(tap);
      }
    }
    taps = std::move(merged);
    for (auto tap : taps) largest = std::max(largest, tap.second);
  }
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + largest * static_cast<double>(int64_t{1} << (bits + 1))) < (1 << 15))
    ++bits;
  for (auto& taps : r.taps)
    for (auto& tap : taps)
      tap.second = std::trunc(tap.second * static_cast<double>(1 << bits) + (tap.second < 0 ? -0.5 : 0.5));
  return bits;
}

Value resample_bytes(Value x, int64_t dim, Resampling r) {
  const int bits = quantize(r);
  x = resample(x, dim, r);
  x = add(x, constant_like(x, bits > 0 ? int64_t{1} << (bits - 1) : int64_t{0}));
  x = shift_right_arithmetic(x, constant_like(x, bits));
  return clamp(constant(x.builder(), x.element(), 0), x, constant(x.builder(), x.element(), 255));
}

Value upsample(Op& op, Mode mode, size_t n) {
  const ElementType t = op.element("self");
  check_type(op, t);
  if (t == ElementType::kU8 && n != 2 && !is_nearest(mode))
    throw Unsupported(op.name() + ": not implemented for 'uint8'");
  const Dims output = expand_ints(op.integers("output_size"), n);
  const bool bytes = t == ElementType::kU8 && !is_nearest(mode);
  Value x = op.tensor("self", bytes ? ElementType::kS32 : is_nearest(mode) ? t : opmath_type(t));
  for (size_t i = n; i-- > 0;) {
    const int64_t dim = static_cast<int64_t>(i) + 2, size = x.dim(static_cast<int>(dim));
    Resampling r = table(op, mode, n, i, size, output[i], t);
    if (!bytes) {
      x = resample(x, dim, r);
    } else if (size != output[i]) {
      x = resample_bytes(x, dim, std::move(r));
    }
  }
  return convert(x, t);
}

Value upsample_backward(Op& op, Mode mode, size_t n) {
  const ElementType t = op.element("grad_output");
  check_type(op, t);
  Value grad = op.tensor("grad_output", opmath_type(t));
  const Dims& input = op.integers("input_size");
  for (size_t i = 0; i < n; ++i) {
    const int64_t dim = static_cast<int64_t>(i) + 2;
    const int64_t output = grad.dim(static_cast<int>(dim));
    grad = resample(grad, dim, transposed(table(op, mode, n, i, input[i + 2], output, t)));
  }
  return convert(grad, t);
}

template <Mode mode, size_t n>
Value forward(Op& op) {
  return upsample(op, mode, n);
}
template <Mode mode, size_t n>
Value backward(Op& op) {
  return upsample_backward(op, mode, n);
}

template <Mode mode, size_t n>
void add_mode(Registry& r, const std::string& name) {
  std::vector<std::string> scales;
  for (size_t i = 0; i < n; ++i) scales.push_back(kScaleNames[n - 1][i]);
  r.add(name, forward<mode, n>).structural(scales);
  r.add(name + "_backward", backward<mode, n>).structural(scales);
}

}  // namespace

void register_upsample(Registry& r) {
  add_mode<Mode::kNearest, 1>(r, "upsample_nearest1d");
  add_mode<Mode::kNearest, 2>(r, "upsample_nearest2d");
  add_mode<Mode::kNearest, 3>(r, "upsample_nearest3d");
  add_mode<Mode::kNearestExact, 1>(r, "_upsample_nearest_exact1d");
  add_mode<Mode::kNearestExact, 2>(r, "_upsample_nearest_exact2d");
  add_mode<Mode::kNearestExact, 3>(r, "_upsample_nearest_exact3d");
  add_mode<Mode::kLinear, 1>(r, "upsample_linear1d");
  add_mode<Mode::kLinear, 2>(r, "upsample_bilinear2d");
  add_mode<Mode::kLinear, 3>(r, "upsample_trilinear3d");
  add_mode<Mode::kCubic, 2>(r, "upsample_bicubic2d");
  add_mode<Mode::kLinearAntialias, 2>(r, "_upsample_bilinear2d_aa");
  add_mode<Mode::kCubicAntialias, 2>(r, "_upsample_bicubic2d_aa");
  add_mode<Mode::kLanczosAntialias, 2>(r, "_upsample_lanczos2d_aa");
}

}  // namespace torch_tpu::lowering
