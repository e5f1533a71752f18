// Copies: host to device, device to host, within a device, between devices; and reading one number.
#include <ATen/ATen.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <torch/library.h>

#include "aten/bridge.h"
#include "aten/op_entry.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"
#include "runtime/session.h"
#include "runtime/transfer.h"

namespace torch_tpu::aten {
namespace {

// True when `t` is the whole of its storage's array, so that a copy into it replaces the array.
bool covers_storage(const at::Tensor& t) {
  const runtime::Storage& s = storage_of(t);
  return byte_offset(t) == 0 && s.element == to_element_type(t.scalar_type()) &&
         t.numel() * static_cast<int64_t>(t.element_size()) == s.nbytes && t.is_non_overlapping_and_dense();
}

void copy_within_device(const at::Tensor& self, const at::Tensor& src) {
  runtime::Storage& to = storage_of(self);
  runtime::Storage& from = storage_of(src);
  if (&to == &from && byte_offset(self) == byte_offset(src) && self.sizes() == src.sizes() &&
      self.strides() == src.strides() && self.scalar_type() == src.scalar_type())
    return;
  // Two whole arrays of one layout share the buffer until one of them is written.
  if (&to != &from && self.scalar_type() == src.scalar_type() && self.sizes() == src.sizes() &&
      self.strides() == src.strides() && covers_storage(self) && covers_storage(src) && from.buffer) {
    to.buffer = from.buffer;
    to.dims = from.dims;
    return;
  }
  static const OpEntry& entry = internal_entry("tpu::copy(Tensor(a!) self, Tensor src) -> Tensor(a!)");
  torch::jit::Stack stack{self, src};
  run_entry(entry, &stack);
}

void copy_from_host(const at::Tensor& self, const at::Tensor& src) {
  at::Tensor dense = src.to(self.scalar_type()).resolve_conj().resolve_neg().expand(self.sizes());
  if (covers_storage(self)) {
    // In the device tensor's own order of strides, so that the upload is the array.
    runtime::Storage& s = storage_of(self);
    if (!dense.strides().equals(self.strides()) || !dense.is_non_overlapping_and_dense()) {
      at::Tensor ordered = at::empty_strided(self.sizes(), self.strides(), dense.options());
      ordered.copy_(dense);
      dense = ordered;
    }
    const auto dims = dense_dims(self.sizes(), self.strides());
    s.buffer = runtime::upload(dense.const_data_ptr(), s.element, *dims, s.device);
    s.dims = *dims;
    return;
  }
  const at::Tensor staged = at::empty(self.sizes(), self.options().memory_format(at::MemoryFormat::Contiguous));
  copy_from_host(staged, dense);
  copy_within_device(self, staged);
}

// The tensor without lazy conjugation and negation: computed into a new one.
at::Tensor resolve_lazy_bits(const at::Tensor& t) {
  at::Tensor out = t;
  if (out.is_conj()) out = out.conj().conj_physical();
  if (out.is_neg()) out = out._neg_view().neg();
  return out;
}

void copy_to_host(const at::Tensor& self, const at::Tensor& src) {
  // Conjugation and negation are lazy bits of the view; the bytes are those of the base.
  at::Tensor view = host_view(src);
  if (src.is_conj()) view = view.conj();
  if (src.is_neg()) view = view._neg_view();
  at::Tensor(self).copy_(view);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool);

// What is written through a lazily conjugated or negated view is conjugated or negated in memory.
at::Tensor copy_into_lazy_view(const at::Tensor& src, const at::Tensor& dst) {
  at::Tensor source = src.scalar_type() == dst.scalar_type() ? src : src.to(dst.scalar_type());
  at::Tensor target = dst;
  if (target.is_conj()) {
    source = source.conj();
    target = target.conj();
  }
  if (target.is_neg()) {
    source = source._neg_view();
    target = target._neg_view();
  }
  copy_from(source, target, false);
  return dst;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) {
  // `self` is the source here, as in the schema of aten::_copy_from.
  return translate_errors([&] {
    if (self.is_meta()) return dst;
    if (is_device_tensor(dst) && (dst.is_conj() || dst.is_neg())) return copy_into_lazy_view(self, dst);
    if (dst.numel() == 0 && self.numel() == 0) return dst;
    if (!is_device_tensor(dst)) {
      copy_to_host(dst, self);
    } else if (!is_device_tensor(self)) {
      copy_from_host(dst, self);
    } else {
      at::Tensor source = resolve_lazy_bits(self);
      if (storage_of(source).device != storage_of(dst).device) {
        at::Tensor whole = source.contiguous();
        runtime::Storage& s = storage_of(whole);
        source = make_tensor(runtime::copy_to_device(runtime::materialize(s), storage_of(dst).device), s.element,
                             whole.sizes(), whole.strides(), s.dims, storage_of(dst).device);
      }
      copy_within_device(dst, source);
    }
    return dst;
  });
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) at::Tensor(dst).resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  return translate_errors([&] {
    TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
    return at::native::_local_scalar_dense_cpu(host_view(self));
  });
}

// A false condition raises, which has to be read: this waits for the device.
void assert_true_message(const at::Tensor& self, c10::string_view message) {
  TORCH_CHECK(self.numel() > 0, "Boolean value of Tensor with no values is ambiguous");
  TORCH_CHECK(self.numel() < 2, "Boolean value of Tensor with more than one value is ambiguous");
  TORCH_CHECK(self.is_nonzero(), message.empty() ? "Expected Tensor to be nonzero" : std::string(message));
}
void assert_true(const at::Tensor& self) { assert_true_message(self, {}); }
at::Tensor assert_true_functional(const at::Tensor& self, c10::string_view message, const at::Tensor& token) {
  assert_true_message(self, message);
  return token.clone();
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              other.device(), "!");
  if (self.sizes() != other.sizes()) return false;
  if (self.is_alias_of(other) && self.storage_offset() == other.storage_offset() && self.strides() == other.strides() &&
      self.scalar_type() == other.scalar_type() && !at::isFloatingType(self.scalar_type()) && !self.is_complex())
    return true;
  return self.eq(other).all().item<bool>();
}

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  const at::MemoryFormat f = format.value_or(at::MemoryFormat::Preserve);
  at::Tensor out = f == at::MemoryFormat::Preserve && self.is_non_overlapping_and_dense()
                       ? at::empty_strided(self.sizes(), self.strides(), self.options())
                       : at::empty_like(self, self.options(), f);
  if (self._is_zerotensor()) return out.zero_();
  translate_errors([&] {
    if (self.numel() > 0) copy_within_device(out, resolve_lazy_bits(self));
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("_assert_async", &assert_true);
  m.impl("_assert_async.msg", &assert_true_message);
  m.impl("_functional_assert_async.msg", &assert_true_functional);
  m.impl("equal", &equal);
  m.impl("clone", &clone);
}

// PyTorch's fallbacks for lazy bits know from the schema what an op writes, and _copy_from's schema does not say that
// it writes `dst`: they would hand it a resolved copy. The kernel minds the bits itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace torch_tpu::aten
