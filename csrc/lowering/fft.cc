// Discrete Fourier transforms over any dims.
#include <algorithm>
#include <cmath>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

// XLA transforms the last one to three dims.
constexpr size_t kMaxDims = 3;

// `transform` of x with `dims` moved to the end, and back.
template <typename Transform>
Value at_end(Value x, const Dims& dims, const Transform& transform) {
  Dims order;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  order.insert(order.end(), dims.begin(), dims.end());
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return transpose(transform(transpose(x, order)), inverse);
}

int64_t points(Value x, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dim(static_cast<int>(d));
  return n;
}

// Complex transform, not normalized in the forward direction, divided by the number of points in the other.
Value transform(Value x, const Dims& dims, bool forward) {
  for (size_t end = dims.size(); end > 0;) {
    const size_t begin = end - std::min(end, kMaxDims);
    const Dims part(dims.begin() + static_cast<std::ptrdiff_t>(begin), dims.begin() + static_cast<std::ptrdiff_t>(end));
    x = at_end(x, part, [&](Value y) {
      const Dims length(y.dims().end() - static_cast<std::ptrdiff_t>(part.size()), y.dims().end());
      return fft(y, forward ? FftType::kFft : FftType::kIfft, length);
    });
    end = begin;
  }
  return x;
}

// ATen's fft_norm_mode: 0 none, 1 by the root of the number of points, 2 by the number. `divided` says that XLA has
// divided by the number already.
Value normalize(Value x, int64_t mode, int64_t n, bool divided) {
  const double count = static_cast<double>(n);
  double scale = mode == 0 ? 1 : mode == 1 ? 1 / std::sqrt(count) : 1 / count;
  if (divided) scale *= count;
  if (scale == 1 || mode == (divided ? 2 : 0)) return x;
  return x * scale;
}

Value fft_c2c(Op& op) {
  Value x = op.tensor("self");
  const Dims dims = wrap_dims(op.integers("dim"), x.rank());
  if (x.numel() == 0 || dims.empty()) return x;
  const bool forward = op.boolean("forward");
  return normalize(transform(x, dims, forward), op.integer("normalization"), points(x, dims), !forward);
}

Value fft_r2c(Op& op) {
  Value x = op.tensor("self");
  Dims dims = wrap_dims(op.integers("dim"), x.rank());
  if (x.numel() == 0) return constant(op.builder(), complex_type(x.element()), 0, op.result_dims());
  const int64_t n = points(x, dims), mode = op.integer("normalization");
  if (!op.boolean("onesided"))
    return normalize(transform(convert(x, complex_type(x.element())), dims, true), mode, n, false);
  const Dims last{dims.back()};
  dims.pop_back();
  Value half = at_end(x, last, [](Value y) { return fft(y, FftType::kRfft, {y.dims().back()}); });
  return normalize(transform(half, dims, true), mode, n, false);
}

Value fft_c2r(Op& op) {
  Value x = op.tensor("self");
  Dims dims = wrap_dims(op.integers("dim"), x.rank());
  const int64_t size = op.integer("last_dim_size");
  const Dims last{dims.back()};
  dims.pop_back();
  const int64_t n = points(x, dims) * size;
  if (x.numel() == 0 || size == 0) return constant(op.builder(), real_type(x.element()), 0, op.result_dims());
  x = transform(x, dims, false);
  // The other half of the spectrum is the conjugate of this one.
  x = slice_dim(x, last[0], 0, size / 2 + 1);
  x = at_end(x, last, [&](Value y) { return fft(y, FftType::kIrfft, {size}); });
  return normalize(x, op.integer("normalization"), n, true);
}

}  // namespace

void register_fft(Registry& r) {
  constexpr const char* kNoWideTransform =
      "TPUs have no Fourier transform of float64 or complex128: use float32 or complex64";
  r.add("_fft_c2c", fft_c2c)
      .note("XLA's Fourier transform, up to three dims at a time")
      .not_on_tpu({ElementType::kC128}, kNoWideTransform);
  r.add("_fft_r2c", fft_r2c)
      .note("XLA's Fourier transform, up to three dims at a time")
      .not_on_tpu({ElementType::kF64}, kNoWideTransform);
  r.add("_fft_c2r", fft_c2r)
      .note("XLA's Fourier transform, up to three dims at a time")
      .not_on_tpu({ElementType::kC128}, kNoWideTransform);
}

}  // namespace torch_tpu::lowering
