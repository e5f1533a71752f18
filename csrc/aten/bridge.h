// Between PyTorch's tensors and the runtime's storages.
#pragma once

#include <ATen/ATen.h>

#include "runtime/call.h"
#include "runtime/program.h"

namespace torch_tpu::aten {

// kInvalid for dtypes that the device does not have (quantized types, complex32).
ElementType to_element_type(c10::ScalarType type);
c10::ScalarType to_scalar_type(ElementType type);
// The same, but throws an error that names the dtype.
ElementType checked_element_type(c10::ScalarType type);

inline bool is_device_tensor(const at::TensorBase& t) { return t.defined() && t.device().is_privateuseone(); }

// What the tensor's storage owns. The tensor is on the device. Gives the array a type when it has none yet.
runtime::Storage& storage_of(const at::TensorBase& t);

// Where the tensor begins in its array, in bytes.
int64_t byte_offset(const at::TensorBase& t);

// A device tensor as the runtime sees it; sizes and strides stay the tensor's.
runtime::TensorRef tensor_ref(const at::TensorBase& t);

// A new tensor on `buffer` (null: contents undefined). `dims` is the array: sizes in stride order.
at::Tensor make_tensor(runtime::BufferRef buffer, ElementType type, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::IntArrayRef dims, int device);
inline at::Tensor make_tensor(runtime::BufferRef buffer, const runtime::Program::Result& r, int device) {
  return make_tensor(std::move(buffer), r.element, r.sizes, r.strides, r.dims, device);
}

// The dense array beneath a tensor of these sizes and strides: sizes in stride order. Not dense: nullopt.
std::optional<std::vector<int64_t>> dense_dims(at::IntArrayRef sizes, at::IntArrayRef strides);

// The number in a 0-dim CPU tensor.
runtime::ScalarValue scalar_of(const at::TensorBase& t);
runtime::ScalarValue scalar_of(const c10::Scalar& s);

// Reads the tensor as a CPU tensor that shares the device's memory where that is host memory (do not write to it).
// Waits for the contents.
at::Tensor host_view(const at::Tensor& t);

// Runs `body`, turning the runtime's exceptions into PyTorch's.
template <typename Body>
auto translate_errors(Body&& body) -> decltype(body());
[[noreturn]] void rethrow_as_torch_error();

template <typename Body>
auto translate_errors(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception&) {
    rethrow_as_torch_error();
  }
}

}  // namespace torch_tpu::aten
