// Compiled programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

class Client;
class Plugin;

// Bytes of device memory that a run needs.
struct CompiledMemoryStats {
  int64_t generated_code = 0;
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0;  // outputs that reuse arguments
  int64_t temporaries = 0;
  int64_t peak = 0;  // 0 where the plugin does not say
};

// The optimized module, in the plugin's format ("hlo", "hlo_with_config": serialized protos; "mlir").
struct OptimizedProgram {
  std::string format;
  std::string code;
};

// A compiled program that is not on any device: what Topology::compile gives, and the descriptive part of a
// LoadedExecutable.
class Executable {
 public:
  // Takes ownership of `executable`.
  Executable(std::shared_ptr<const Plugin> plugin, PJRT_Executable* executable);

  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  std::string name() const;
  size_t num_outputs() const { return num_outputs_; }
  std::vector<ElementType> output_types() const;
  std::vector<std::vector<int64_t>> output_dims() const;

  // Bytes for Client::deserialize; only good for the same plugin version and hardware.
  std::string serialize() const;
  // None where the plugin has no fingerprints.
  std::optional<std::string> fingerprint() const;
  // "flops", "bytes accessed", ...; empty where the plugin has none.
  std::map<std::string, double> cost_analysis() const;
  std::optional<CompiledMemoryStats> compiled_memory_stats() const;
  std::optional<OptimizedProgram> optimized_program() const;

 private:
  struct Destroy {
    const PJRT_Api* api;
    void operator()(PJRT_Executable* executable) const;
  };

  std::shared_ptr<const Plugin> plugin_;
  const PJRT_Api* api_;
  std::unique_ptr<PJRT_Executable, Destroy> executable_;
  size_t num_outputs_ = 0;
};

struct ExecuteArgs {
  // Where to run. Portable programs must be told; for others null is the device named at compile time.
  PJRT_Device* device = nullptr;
  // Arguments that must survive although the program would reuse their memory (tf.aliasing_output).
  std::span<const int64_t> non_donatable = {};
  // Where given, receives an event for the end of the run. The caller owns it.
  PJRT_Event** complete_event = nullptr;
  // Same non-zero number on all devices that take part in one launch.
  int launch_id = 0;
};

struct ReplicaExecuteArgs {
  std::span<const int64_t> non_donatable = {};  // the same for all replicas
  std::span<PJRT_Event*> complete_events = {};  // empty, or one per replica; the caller owns them
  int launch_id = 0;
};

// A program that is ready to run. Keeps its Client alive.
class LoadedExecutable {
 public:
  // Takes ownership of `executable`.
  LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* executable);

  LoadedExecutable(const LoadedExecutable&) = delete;
  LoadedExecutable& operator=(const LoadedExecutable&) = delete;

  // Starts one run on one device and fills `outputs` (num_outputs() of them), which the caller owns. Returns before the
  // run is over; errors of the run itself come out of the outputs' ready events. Donated arguments are deleted but
  // their handles must still be freed. Allocates nothing. On Error no output was made.
  void execute(std::span<PJRT_Buffer* const> args, std::span<PJRT_Buffer*> outputs, const ExecuteArgs& options) const;

  // One run on every device of the assignment in one call. args[r] points to num_args buffers on replica r's device,
  // outputs[r] to room for num_outputs().
  void execute_replicas(std::span<PJRT_Buffer* const* const> args, size_t num_args,
                        std::span<PJRT_Buffer** const> outputs, const ReplicaExecuteArgs& options) const;

  size_t num_outputs() const { return executable_->num_outputs(); }
  std::vector<ElementType> output_types() const { return executable_->output_types(); }
  std::vector<std::vector<int64_t>> output_dims() const { return executable_->output_dims(); }
  std::string serialize() const { return executable_->serialize(); }
  std::optional<std::string> fingerprint() const { return executable_->fingerprint(); }
  std::map<std::string, double> cost_analysis() const { return executable_->cost_analysis(); }
  std::optional<CompiledMemoryStats> compiled_memory_stats() const { return executable_->compiled_memory_stats(); }
  std::optional<OptimizedProgram> optimized_program() const { return executable_->optimized_program(); }
  // The devices of the assignment that this process drives; empty for portable programs.
  std::vector<Device> addressable_devices() const;

  const Executable& executable() const { return *executable_; }
  PJRT_LoadedExecutable* get() const { return loaded_.get(); }

 private:
  struct Destroy {
    const PJRT_Api* api;
    void operator()(PJRT_LoadedExecutable* executable) const;
  };

  std::shared_ptr<const Client> client_;
  const PJRT_Api* api_;
  std::unique_ptr<PJRT_LoadedExecutable, Destroy> loaded_;
  std::unique_ptr<const Executable> executable_;
};

}  // namespace torch_tpu::pjrt
