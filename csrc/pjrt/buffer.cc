#include "pjrt/buffer.h"

#include <array>
#include <stdexcept>

#include "pjrt/args.h"
#include "pjrt/error.h"

namespace torch_tpu::pjrt {
namespace {

// PyTorch's own limit on dimensions.
constexpr size_t kMaxRank = 64;

}  // namespace

ElementType from_pjrt(PJRT_Buffer_Type type) {
  for (uint8_t i = 0; i < static_cast<uint8_t>(ElementType::kInvalid); ++i) {
    const auto candidate = static_cast<ElementType>(i);
    if (element_type_info(candidate).pjrt == type) return candidate;
  }
  return ElementType::kInvalid;
}

void Buffer::reset() {
  if (buffer_ == nullptr) return;
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = std::exchange(buffer_, nullptr);
  api_->PJRT_Buffer_Destroy(&args);
}

std::span<const int64_t> Buffer::dims() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Dimensions(&args), "reading a buffer's dimensions");
  return {args.dims, args.num_dims};
}

ElementType Buffer::element_type() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ElementType_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_ElementType(&args), "reading a buffer's element type");
  return from_pjrt(args.type);
}

size_t Buffer::on_device_size() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_OnDeviceSizeInBytes(&args), "reading a buffer's size");
  return args.on_device_size_in_bytes;
}

PJRT_Device* Buffer::device() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Device_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Device(&args), "reading a buffer's device");
  return args.device;
}

bool Buffer::is_on_cpu() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_IsOnCpu_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_IsOnCpu(&args), "asking where a buffer is");
  return args.is_on_cpu;
}

Event Buffer::ready_event() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_ReadyEvent(&args), "asking whether a buffer is ready");
  return Event(api_, args.event);
}

Event Buffer::copy_to_host(void* dst, size_t size) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer_;
  args.dst = dst;
  args.dst_size = size;

  // Without a layout the plugin copies in the device's own, which need not be row-major.
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  std::array<int64_t, kMaxRank> minor_to_major;
  const size_t rank = dims().size();
  if (rank > kMaxRank) throw std::invalid_argument("copy_to_host: more than 64 dimensions");
  if (rank > 1) {
    for (size_t i = 0; i < rank; ++i) minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = rank;
    args.host_layout = &layout;
  }
  check(api_, api_->PJRT_Buffer_ToHostBuffer(&args), "copying a buffer to the host");
  return Event(api_, args.event);
}

void* Buffer::unsafe_host_pointer() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&args), "reading a buffer's address");
  return args.device_memory_ptr;
}

Buffer Buffer::copy_to_device(const Device& device) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_CopyToDevice_Args, args);
  args.buffer = buffer_;
  args.dst_device = device.get();
  check(api_, api_->PJRT_Buffer_CopyToDevice(&args), "copying a buffer to another device");
  return Buffer(api_, args.dst_buffer);
}

void Buffer::delete_memory() {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Delete_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Delete(&args), "deleting a buffer");
}

bool Buffer::is_deleted() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_IsDeleted(&args), "asking whether a buffer is deleted");
  return args.is_deleted;
}

}  // namespace torch_tpu::pjrt
