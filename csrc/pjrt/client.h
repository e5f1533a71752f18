// A connection to the devices of one plugin.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "pjrt/named_value.h"
#include "pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

class LoadedExecutable;

// What the plugin may do with host memory that an array is made from.
enum class HostBufferSemantics {
  kImmutableOnlyDuringCall,          // copied before the call returns
  kImmutableUntilTransferCompletes,  // read until the done event
  kImmutableZeroCopy,                // may be the array's memory; read until the done event, when the array is freed
  kMutableZeroCopy,                  // the same, and may be written by a program that takes the array as a donation
};

// Owns a PJRT_Client and keeps its Plugin loaded. Executables keep it alive; buffers and events do not. All methods may
// be called from any thread.
class Client : public std::enable_shared_from_this<Client> {
 public:
  // Throws Error when the plugin refuses an option (plugins differ in which they know) or finds no device.
  static std::shared_ptr<Client> create(std::shared_ptr<Plugin> plugin, const NamedValues& options = {});

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  PJRT_Client* get() const { return client_.get(); }
  const PJRT_Api* api() const { return api_; }
  const Plugin& plugin() const { return *plugin_; }
  const std::shared_ptr<Plugin>& shared_plugin() const { return plugin_; }

  const std::string& platform_name() const { return platform_name_; }        // "cpu", "tpu"
  const std::string& platform_version() const { return platform_version_; }  // part of disk cache keys
  int process_index() const { return process_index_; }
  // The devices that this process can use, in the plugin's order.
  const std::vector<Device>& addressable_devices() const { return addressable_devices_; }
  // All devices of all processes.
  const std::vector<Device>& devices() const { return devices_; }

  // True when buffers are host memory: unsafe_host_pointer() may be read and written like an ordinary pointer.
  bool has_host_memory() const { return has_host_memory_; }
  bool can_create_uninitialized() const { return can_create_uninitialized_; }

  // Compiles StableHLO text. `options` is CompileOptions::serialize().
  std::unique_ptr<LoadedExecutable> compile(std::string_view module_text, std::string_view options) const;
  // Loads what Executable::serialize gave, from the same plugin version.
  std::unique_ptr<LoadedExecutable> deserialize(std::string_view serialized) const;

  // An array from dense row-major host memory. `done`, where given, receives an event that the caller owns; without it
  // the semantics must be kImmutableOnlyDuringCall, as nothing else says when `data` may go.
  Buffer buffer_from_host(const void* data, ElementType type, std::span<const int64_t> dims, const Device& device,
                          HostBufferSemantics semantics = HostBufferSemantics::kImmutableOnlyDuringCall,
                          PJRT_Event** done = nullptr) const;
  // An array with undefined contents. Throws Error (UNIMPLEMENTED) unless can_create_uninitialized().
  Buffer create_uninitialized_buffer(ElementType type, std::span<const int64_t> dims, const Device& device) const;

 private:
  struct Destroy {
    const PJRT_Api* api;
    void operator()(PJRT_Client* client) const;
  };

  Client(std::shared_ptr<Plugin> plugin, PJRT_Client* client);
  bool probe_host_memory() const;
  bool probe_uninitialized() const;

  std::shared_ptr<Plugin> plugin_;
  const PJRT_Api* api_;
  std::unique_ptr<PJRT_Client, Destroy> client_;
  std::string platform_name_;
  std::string platform_version_;
  int process_index_ = 0;
  std::vector<Device> devices_;
  std::vector<Device> addressable_devices_;
  bool has_host_memory_ = false;
  bool can_create_uninitialized_ = false;
};

}  // namespace torch_tpu::pjrt
