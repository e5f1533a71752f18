#include "pjrt/device.h"

#include "pjrt/args.h"
#include "pjrt/error.h"

namespace torch_tpu::pjrt {

Device::Device(const PJRT_Api* api, PJRT_Device* device) : api_(api), device_(device) {
  TORCH_TPU_PJRT_ARGS(PJRT_Device_GetDescription_Args, description);
  description.device = device;
  check(api, api->PJRT_Device_GetDescription(&description), "describing a device");
  description_ = description.device_description;

  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = description_;
  check(api, api->PJRT_DeviceDescription_Id(&id), "reading a device's id");
  id_ = id.id;

  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process);
  process.device_description = description_;
  check(api, api->PJRT_DeviceDescription_ProcessIndex(&process), "reading a device's process");
  process_index_ = process.process_index;

  TORCH_TPU_PJRT_ARGS(PJRT_Device_IsAddressable_Args, addressable);
  addressable.device = device;
  check(api, api->PJRT_Device_IsAddressable(&addressable), "asking whether a device is addressable");
  is_addressable_ = addressable.is_addressable;

  TORCH_TPU_PJRT_ARGS(PJRT_Device_LocalHardwareId_Args, local);
  local.device = device;
  check(api, api->PJRT_Device_LocalHardwareId(&local), "reading a device's hardware id");
  local_hardware_id_ = local.local_hardware_id;
}

std::string_view Device::kind() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, args);
  args.device_description = description_;
  check(api_, api_->PJRT_DeviceDescription_Kind(&args), "reading a device's kind");
  return {args.device_kind, args.device_kind_size};
}

std::string_view Device::debug_string() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_DebugString_Args, args);
  args.device_description = description_;
  check(api_, api_->PJRT_DeviceDescription_DebugString(&args), "describing a device");
  return {args.debug_string, args.debug_string_size};
}

NamedValues Device::attributes() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Attributes_Args, args);
  args.device_description = description_;
  check(api_, api_->PJRT_DeviceDescription_Attributes(&args), "reading a device's attributes");
  return from_pjrt(args.attributes, args.num_attributes);
}

std::optional<MemoryStats> Device::memory_stats() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Device_MemoryStats_Args, args);
  args.device = device_;
  if (!check_supported(api_, api_->PJRT_Device_MemoryStats(&args), "reading memory statistics")) return std::nullopt;
  auto known = [](int64_t value, bool is_set) { return is_set ? std::optional<int64_t>(value) : std::nullopt; };
  return MemoryStats{
      .bytes_in_use = args.bytes_in_use,
      .peak_bytes_in_use = known(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set),
      .num_allocs = known(args.num_allocs, args.num_allocs_is_set),
      .largest_alloc_size = known(args.largest_alloc_size, args.largest_alloc_size_is_set),
      .bytes_limit = known(args.bytes_limit, args.bytes_limit_is_set),
      .bytes_reserved = known(args.bytes_reserved, args.bytes_reserved_is_set),
      .largest_free_block_bytes = known(args.largest_free_block_bytes, args.largest_free_block_bytes_is_set),
      .pool_bytes = known(args.pool_bytes, args.pool_bytes_is_set),
  };
}

}  // namespace torch_tpu::pjrt
