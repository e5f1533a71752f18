// Factories whose size depends on their numbers: the size is worked out here, so that the numbers stay runtime inputs.
#include <ATen/ATen.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>

#include <cmath>

#include "aten/bridge.h"
#include "aten/device.h"
#include "aten/op_entry.h"

namespace torch_tpu::aten {
namespace {

// Puts a fresh result into `out`, which takes over its array where it can.
at::Tensor& assign(at::Tensor& out, const at::Tensor& result) {
  if (out.sizes() != result.sizes()) out.resize_(result.sizes());
  if (out.numel() > 0) out.copy_(result);
  return out;
}

// The same for a range, which goes into any tensor that has as many elements.
at::Tensor& assign_range(at::Tensor& out, const at::Tensor& result) {
  return out.numel() == result.numel() ? assign(out, result.view(out.sizes())) : assign(out, result);
}

template <typename... Arguments>
at::Tensor call(const OpEntry& entry, const Arguments&... arguments) {
  torch::jit::Stack stack;
  (stack.emplace_back(arguments), ...);
  run_entry(entry, &stack);
  return stack.back().toTensor();
}

at::Tensor& fill_range(at::Tensor& out, int64_t size, const at::Scalar& start, const at::Scalar& step) {
  static const OpEntry& entry =
      internal_entry("tpu::arange(int size, Scalar start, Scalar step, *, ScalarType dtype, Device device) -> Tensor");
  return assign_range(out, call(entry, size, start, step, out.scalar_type(), out.device()));
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(!out.is_complex() && out.scalar_type() != at::kBool,
                              "\"arange_cpu\" not implemented for '", out.scalar_type(), "'");
  // The sign and finiteness checks and the count are ATen's: by the numbers' whole parts for int64, whatever their
  // type.
  const int64_t size = out.scalar_type() == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                                                      : at::native::compute_arange_size<double>(start, end, step);
  if (out.numel() > 0 && out.numel() != size)
    TORCH_WARN(
        "The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
        " which does not match the computed number of elements ", size,
        ". Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of "
        "shape (",
        size, ",).");
  return fill_range(out, size, start, step);
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const double from = start.toDouble(), to = end.toDouble(), by = step.toDouble();
  at::native::arange_check_bounds(start, end, step);
  const auto size = static_cast<int64_t>(std::floor((to - from) / by)) + 1;
  return fill_range(out, size, start, step);
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  static const OpEntry& entry = internal_entry(
      "tpu::linspace(int steps, Scalar start, Scalar end, *, ScalarType dtype, Device device) -> Tensor");
  return assign_range(out, call(entry, steps, start, end, out.scalar_type(), out.device()));
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  static const OpEntry& entry = internal_entry(
      "tpu::logspace(int steps, Scalar start, Scalar end, float base, *, ScalarType dtype, Device device) -> Tensor");
  return assign_range(out, call(entry, steps, start, end, base, out.scalar_type(), out.device()));
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  static const OpEntry& entry = internal_entry("tpu::eye(int n, int m, *, ScalarType dtype, Device device) -> Tensor");
  return assign(out, call(entry, n, m, out.scalar_type(), out.device()));
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

at::Tensor& randperm_out(int64_t n, std::optional<at::Generator> generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got ", n);
  at::native::check_supported_max_int_with_precision(n, out);
  static const OpEntry& entry =
      internal_entry("tpu::randperm(int n, *, ScalarType dtype, Device device, Generator? generator) -> Tensor");
  return assign(out,
                call(entry, n, out.scalar_type(), out.device(), generator ? c10::IValue(*generator) : c10::IValue()));
}

void check_indices_arguments(int64_t row, int64_t col, std::optional<at::Layout> layout) {
  TORCH_CHECK(row >= 0, "row must be non-negative, got", row);
  TORCH_CHECK(col >= 0, "col must be non-negative, got", col);
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "only support layout=torch.strided, got", *layout);
}

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  check_indices_arguments(row, col, layout);
  static const OpEntry& entry =
      internal_entry("tpu::tril_indices(int row, int col, int offset, *, ScalarType dtype, Device device) -> Tensor");
  return call(entry, row, col, offset, dtype.value_or(at::kLong), device.value_or(at::Device(at::kPrivateUse1)));
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  check_indices_arguments(row, col, layout);
  static const OpEntry& entry =
      internal_entry("tpu::triu_indices(int row, int col, int offset, *, ScalarType dtype, Device device) -> Tensor");
  return call(entry, row, col, offset, dtype.value_or(at::kLong), device.value_or(at::Device(at::kPrivateUse1)));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("arange.start_out", &arange_out);
  m.impl("range.out", &range_out);
  m.impl("linspace.out", &linspace_out);
  m.impl("logspace.out", &logspace_out);
  m.impl("eye.out", &eye_out);
  m.impl("eye.m_out", &eye_m_out);
  m.impl("randperm.generator_out", &randperm_out);
  m.impl("tril_indices", &tril_indices);
  m.impl("triu_indices", &triu_indices);
}

}  // namespace torch_tpu::aten
