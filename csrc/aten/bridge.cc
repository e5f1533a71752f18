#include "aten/bridge.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "aten/allocator.h"
#include "aten/device.h"
#include "pjrt/error.h"
#include "runtime/bounds.h"
#include "runtime/session.h"
#include "runtime/transfer.h"
#include "stablehlo/builder.h"

namespace torch_tpu::aten {

ElementType to_element_type(c10::ScalarType type) {
  using c10::ScalarType;
  switch (type) {
    case ScalarType::Bool:
      return ElementType::kPred;
    case ScalarType::Char:
      return ElementType::kS8;
    case ScalarType::Short:
      return ElementType::kS16;
    case ScalarType::Int:
      return ElementType::kS32;
    case ScalarType::Long:
      return ElementType::kS64;
    case ScalarType::Byte:
      return ElementType::kU8;
    case ScalarType::UInt16:
      return ElementType::kU16;
    case ScalarType::UInt32:
      return ElementType::kU32;
    case ScalarType::UInt64:
      return ElementType::kU64;
    case ScalarType::Half:
      return ElementType::kF16;
    case ScalarType::BFloat16:
      return ElementType::kBF16;
    case ScalarType::Float:
      return ElementType::kF32;
    case ScalarType::Double:
      return ElementType::kF64;
    case ScalarType::ComplexHalf:
      return ElementType::kC32;
    case ScalarType::ComplexFloat:
      return ElementType::kC64;
    case ScalarType::ComplexDouble:
      return ElementType::kC128;
    case ScalarType::Float8_e5m2:
      return ElementType::kF8E5M2;
    case ScalarType::Float8_e4m3fn:
      return ElementType::kF8E4M3FN;
    case ScalarType::Float8_e5m2fnuz:
      return ElementType::kF8E5M2FNUZ;
    case ScalarType::Float8_e4m3fnuz:
      return ElementType::kF8E4M3FNUZ;
    case ScalarType::Float8_e8m0fnu:
      return ElementType::kF8E8M0FNU;
    default:
      return ElementType::kInvalid;
  }
}

c10::ScalarType to_scalar_type(ElementType type) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto candidate = static_cast<c10::ScalarType>(i);
    if (to_element_type(candidate) == type) return candidate;
  }
  TORCH_INTERNAL_ASSERT(false, "element type without a dtype");
}

ElementType checked_element_type(c10::ScalarType type) {
  const ElementType t = to_element_type(type);
  TORCH_CHECK_TYPE(t != ElementType::kInvalid, "the tpu device has no dtype ", type,
                   ". Convert the tensor to another dtype on the CPU first.");
  return t;
}

std::optional<std::vector<int64_t>> dense_dims(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < sizes.size(); ++i) order.push_back(static_cast<int64_t>(i));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  std::vector<int64_t> dims;
  int64_t numel = 1, expected = 1;
  for (int64_t i : order) {
    dims.push_back(sizes[i]);
    numel *= sizes[i];
  }
  if (numel == 0) return dims;
  for (size_t k = order.size(); k-- > 0;) {
    if (dims[k] != 1 && strides[order[k]] != expected) return std::nullopt;
    expected *= dims[k];
  }
  return dims;
}

int64_t byte_offset(const at::TensorBase& t) {
  const c10::DataPtr& p = t.unsafeGetTensorImpl()->unsafe_storage().data_ptr();
  int64_t into = 0;
  if (!is_own(p)) find_storage(p.get(), &into);
  return into + t.storage_offset() * static_cast<int64_t>(t.itemsize());
}

namespace {

// Storages that come as bytes (torch.load, UntypedStorage, resize_) get the type and shape of the first tensor made on
// them, so that reading needs no bitcast.
void adopt_type(runtime::Storage& s, const at::TensorBase& t) {
  const ElementType type = checked_element_type(t.scalar_type());
  const auto item = static_cast<int64_t>(byte_size(type));
  const bool dense = byte_offset(t) == 0 && t.numel() * item == s.nbytes;
  auto dims = dense ? dense_dims(t.sizes(), t.strides()) : std::nullopt;
  if (!dims) dims = std::vector<int64_t>{(s.nbytes + item - 1) / item};
  s.element = type;
  s.dims = *dims;
  s.nbytes = std::max(s.nbytes, (s.nbytes + item - 1) / item * item);
}

}  // namespace

runtime::Storage& storage_of(const at::TensorBase& t) {
  const c10::DataPtr& p = t.unsafeGetTensorImpl()->unsafe_storage().data_ptr();
  auto* s = static_cast<runtime::Storage*>(p.get_context());
  if (!is_own(p)) [[unlikely]] {
    // Made from a pointer: what torch.from_dlpack gives. Its storage is the exporter's.
    int64_t ignored = 0;
    s = find_storage(p.get(), &ignored);
    TORCH_CHECK(s, "the tensor's memory is not of this process's tpu device: tensors cannot be made from raw pointers");
  }
  if (s->element == ElementType::kInvalid) [[unlikely]]
    adopt_type(*s, t);
  return *s;
}

runtime::TensorRef tensor_ref(const at::TensorBase& t) {
  runtime::TensorRef ref;
  c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  ref.storage = &storage_of(t);
  ref.type = to_element_type(c10::typeMetaToScalarType(impl->dtype()));
  ref.rank = static_cast<int16_t>(impl->dim());
  ref.sizes = impl->sizes().data();
  ref.strides = impl->strides().data();
  ref.offset = impl->storage_offset();
  if (!is_own(impl->unsafe_storage().data_ptr())) [[unlikely]]
    ref.offset = byte_offset(t) / static_cast<int64_t>(impl->itemsize());
  ref.contiguous = impl->is_contiguous();
  ref.conjugated = impl->is_conj();
  ref.negated = t.is_neg();
  return ref;
}

at::Tensor make_tensor(runtime::BufferRef buffer, ElementType type, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::IntArrayRef dims, int device) {
  int64_t numel = 1;
  for (int64_t d : dims) numel *= d;
  auto* s = new runtime::Storage;
  s->buffer = std::move(buffer);
  s->element = type;
  s->dims.assign(dims.begin(), dims.end());
  s->nbytes = numel * static_cast<int64_t>(byte_size(type));
  s->device = device;
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), s->nbytes, adopt(s),
                                                       &allocator(), /*resizable=*/true);
  at::Tensor t =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                               c10::scalarTypeToTypeMeta(to_scalar_type(type)));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

runtime::ScalarValue scalar_of(const c10::Scalar& s) {
  runtime::ScalarValue v;
  if (s.isBoolean()) {
    v.kind = ElementType::kPred;
    v.integer = s.toBool();
  } else if (s.isIntegral(false)) {
    v.kind = ElementType::kS64;
    v.integer = s.type() == c10::ScalarType::UInt64 ? static_cast<int64_t>(s.toUInt64()) : s.toLong();
  } else if (s.isComplex()) {
    v.kind = ElementType::kC128;
    v.real = s.toComplexDouble().real();
    v.imag = s.toComplexDouble().imag();
  } else {
    v.kind = ElementType::kF64;
    v.real = s.toDouble();
  }
  return v;
}

runtime::ScalarValue scalar_of(const at::TensorBase& t) {
  runtime::ScalarValue v;
  const void* data = t.const_data_ptr();
  switch (t.scalar_type()) {
    case c10::ScalarType::Double:
      v.real = *static_cast<const double*>(data);
      return v;
    case c10::ScalarType::Float:
      v.real = *static_cast<const float*>(data);
      return v;
    case c10::ScalarType::Long:
      v.kind = ElementType::kS64;
      v.integer = *static_cast<const int64_t*>(data);
      return v;
    default:
      return scalar_of(at::Tensor(t).item());
  }
}

at::Tensor host_view(const at::Tensor& t) {
  runtime::Storage& s = storage_of(t);
  std::shared_ptr<void> owner;
  auto* bytes = static_cast<char*>(const_cast<void*>(runtime::host_bytes(s, &owner)));
  // The buffer must outlive the view: a later write to the storage replaces it.
  auto keep = std::make_shared<std::pair<runtime::BufferRef, std::shared_ptr<void>>>(s.buffer, std::move(owner));
  return at::from_blob(
      bytes + byte_offset(t), t.sizes(), t.strides(), [keep](void*) {},
      t.options().device(at::kCPU).requires_grad(false));
}

void rethrow_as_torch_error() {
  try {
    throw;
  } catch (const runtime::IndexError& e) {
    C10_THROW_ERROR(IndexError, e.what());
  } catch (const runtime::LinAlgError& e) {
    C10_THROW_ERROR(LinAlgError, e.what());
  } catch (const lowering::CallIndexError& e) {
    C10_THROW_ERROR(IndexError, e.what());
  } catch (const lowering::CallValueError& e) {
    C10_THROW_ERROR(ValueError, e.what());
  } catch (const lowering::Unsupported& e) {
    C10_THROW_ERROR(NotImplementedError, e.what());
  } catch (const pjrt::Error& e) {
    if (e.out_of_memory()) {
      ++runtime::memory_counters(current_device()).out_of_memory;
      C10_THROW_ERROR(OutOfMemoryError, std::string("TPU out of memory. ") + e.what());
    }
    C10_THROW_ERROR(Error, e.what());
  } catch (const stablehlo::TypeError& e) {
    C10_THROW_ERROR(Error, std::string("torch_tpu: a lowering failed, which is a defect: ") + e.what());
  } catch (const std::bad_alloc&) {
    C10_THROW_ERROR(OutOfMemoryError, "out of host memory");
  } catch (const std::runtime_error& e) {
    C10_THROW_ERROR(Error, e.what());
  } catch (const std::logic_error& e) {
    C10_THROW_ERROR(Error, e.what());
  }
  // What is left comes from Python (meta kernels that are written in it) and stays the exception that it is.
}

}  // namespace torch_tpu::aten
