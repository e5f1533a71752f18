// Ops that make tensors or change how they see their storage. No program runs here, except to fill.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include "aten/allocator.h"
#include "aten/bridge.h"
#include "aten/device.h"

namespace torch_tpu::aten {
namespace {

int checked_device(std::optional<at::Device> device, std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout || *layout == at::kStrided, "the tpu device has no tensors of layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return resolve_device(device.value_or(at::Device(at::kPrivateUse1)));
}

at::DimVector contiguous(at::IntArrayRef sizes) {
  at::DimVector strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return strides;
}

at::Tensor empty_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype, int device) {
  at::detail::check_size_nonnegative(sizes);
  const ElementType type = checked_element_type(dtype);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, byte_size(type));
  check_size(static_cast<int64_t>(bytes), device);
  auto dims = dense_dims(sizes, strides);
  if (!dims) dims = std::vector<int64_t>{static_cast<int64_t>(bytes / byte_size(type))};
  return make_tensor({}, type, sizes, strides, *dims, device);
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  const int index = checked_device(device, layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const at::MemoryFormat f = format.value_or(at::MemoryFormat::Contiguous);
  TORCH_CHECK(f != at::MemoryFormat::Preserve, "empty() has no tensor whose memory format could be preserved");
  at::DimVector strides;
  if (f == at::MemoryFormat::ChannelsLast) {
    TORCH_CHECK(size.size() == 4, "required rank 4 tensor to use channels_last format");
    for (int64_t s : c10::get_channels_last_strides_2d(size)) strides.push_back(s);
  } else if (f == at::MemoryFormat::ChannelsLast3d) {
    TORCH_CHECK(size.size() == 5, "required rank 5 tensor to use channels_last_3d format");
    for (int64_t s : c10::get_channels_last_strides_3d(size)) strides.push_back(s);
  } else {
    strides = contiguous(size);
  }
  return empty_tensor(size, strides, dtype.value_or(c10::get_default_dtype_as_scalartype()), index);
}

// A tensor of zeros without memory: dispatch or `resolve_lazy_arguments` resolves it before a program sees it.
at::Tensor efficient_zeros(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin_memory) {
  const int index = checked_device(device, layout, pin_memory);
  at::native::ZeroTensorAllocator zeros(at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(index)));
  const c10::DispatchKeySet keys =
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &zeros, keys, dtype.value_or(c10::get_default_dtype_as_scalartype()),
                                   std::nullopt);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  const int index = checked_device(device, layout, pin_memory);
  TORCH_CHECK(size.size() == stride.size(), "dimensionality of sizes (", size.size(),
              ") must match dimensionality of strides (", stride.size(), ")");
  return empty_tensor(size, stride, dtype.value_or(c10::get_default_dtype_as_scalartype()), index);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  if (self.sizes() == size && !format) return self;
  at::detail::check_size_nonnegative(size);
  auto* impl = self.unsafeGetTensorImpl();
  // The storage first: where it cannot grow, the tensor stays as it was.
  const c10::Storage& storage = impl->unsafe_storage();
  const size_t needed =
      at::detail::computeStorageNbytesContiguous(size, impl->itemsize(), static_cast<size_t>(impl->storage_offset()));
  if (storage.nbytes() < needed) {
    storage_of(self);  // gives untyped bytes the tensor's type, so that growing keeps it
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, needed);
  }
  impl->set_sizes_contiguous(size);
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_source_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                                      at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  const at::DimVector strides = stride.data() ? at::DimVector(stride) : contiguous(size);
  const size_t needed = at::detail::computeStorageNbytes(size, strides, impl->itemsize(), static_cast<size_t>(offset));
  if (source.nbytes() < needed) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(source, needed);
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, strides);
  return self;
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto n = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return self.set_(std::move(source), 0, {n}, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return self.set_(source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  at::Storage storage(c10::Storage::use_byte_size_t(), 0, allocator().allocate(0), &allocator(), true);
  return self.set_(storage, 0, {0}, {});
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
         self.strides() == other.strides();
}

void record_stream(at::Tensor&, at::Stream) {}  // buffers live until the work that reads them is done

// PyTorch lists the dense backends whose tensors may trade their insides for a CPU tensor's (`.data =`, Module.to
// keeping its Parameters and so their ties); PrivateUse1 is not among them although its tensors are ordinary ones.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.is_cpu() || t.device().is_privateuseone() || t.is_meta());
  };
  return dense(self) && dense(from);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zeros);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &set_source_storage_offset);
  m.impl("set_.source_Storage", &set_source_storage);
  m.impl("set_.source_Tensor", &set_source_tensor);
  m.impl("set_", &set_nothing);
  m.impl("is_set_to", &is_set_to);
  m.impl("record_stream", &record_stream);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(&at::native::view));
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("_reshape_alias",
         static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef, at::IntArrayRef)>(&at::native::_reshape_alias));
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

}  // namespace torch_tpu::aten
