// A device of a client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pjrt/named_value.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Bytes, as far as the plugin knows them.
struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> num_allocs;
  std::optional<int64_t> largest_alloc_size;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> largest_free_block_bytes;
  std::optional<int64_t> pool_bytes;
};

// A value: copies name the same device. Valid while its Client lives.
class Device {
 public:
  Device(const PJRT_Api* api, PJRT_Device* device);

  PJRT_Device* get() const { return device_; }
  // Unique among all devices of all processes; what device assignments speak of.
  int id() const { return id_; }
  // -1 where undefined.
  int local_hardware_id() const { return local_hardware_id_; }
  int process_index() const { return process_index_; }
  bool is_addressable() const { return is_addressable_; }
  // For example "cpu", "TPU v5 lite".
  std::string_view kind() const;
  std::string_view debug_string() const;
  NamedValues attributes() const;
  // None where the plugin keeps no statistics.
  std::optional<MemoryStats> memory_stats() const;

  friend bool operator==(const Device& a, const Device& b) { return a.device_ == b.device_; }

 private:
  const PJRT_Api* api_;
  PJRT_Device* device_;
  PJRT_DeviceDescription* description_;  // owned by the device
  int id_;
  int local_hardware_id_;
  int process_index_;
  bool is_addressable_;
};

}  // namespace torch_tpu::pjrt
