#include "runtime/transfer.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/bounds.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"
#include "runtime/session.h"

namespace torch_tpu::runtime {
namespace {

int64_t byte_count(ElementType type, std::span<const int64_t> dims) {
  auto n = static_cast<int64_t>(byte_size(type));
  for (int64_t d : dims) n *= d;
  return n;
}

}  // namespace

BufferRef upload(const void* data, ElementType type, std::span<const int64_t> dims, int device) {
  Session& session = Session::get();
  const int64_t bytes = byte_count(type, dims);
  BufferRef buffer(
      new DeviceBuffer(session.client().buffer_from_host(data, type, dims, session.device(device)), bytes, device));
  metrics().bytes_h2d += bytes;
  ++metrics().transfers_h2d;
  return buffer;
}

BufferRef zeros(ElementType type, std::span<const int64_t> dims, int device) {
  Session& session = Session::get();
  const int64_t bytes = byte_count(type, dims);
  if (session.client().has_host_memory() && session.client().can_create_uninitialized()) {
    pjrt::Buffer buffer = session.client().create_uninitialized_buffer(type, dims, session.device(device));
    buffer.ready_event().await();
    std::memset(const_cast<void*>(buffer.unsafe_host_pointer()), 0, static_cast<size_t>(bytes));
    return BufferRef(new DeviceBuffer(std::move(buffer), bytes, device));
  }
  std::unique_ptr<void, decltype(&std::free)> memory(std::calloc(bytes ? static_cast<size_t>(bytes) : 1, 1),
                                                     &std::free);
  if (!memory)
    throw pjrt::Error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "cannot allocate " + std::to_string(bytes) + " bytes");
  return upload(memory.get(), type, dims, device);
}

const void* host_bytes(Storage& storage, std::shared_ptr<void>* owner) {
  DeviceBuffer& buffer = materialize(storage);
  buffer.await();
  check_bounds();
  metrics().bytes_d2h += storage.nbytes;
  ++metrics().transfers_d2h;
  if (Session::get().client().has_host_memory()) return buffer.buffer().unsafe_host_pointer();
  const auto bytes = static_cast<size_t>(storage.nbytes);
  owner->reset(std::malloc(bytes ? bytes : 1), &std::free);
  buffer.buffer().copy_to_host(owner->get(), bytes).await();
  return owner->get();
}

BufferRef copy_to_device(DeviceBuffer& buffer, int device) {
  return BufferRef(
      new DeviceBuffer(buffer.buffer().copy_to_device(Session::get().device(device)), buffer.bytes(), device));
}

}  // namespace torch_tpu::runtime
