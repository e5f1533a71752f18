// Compile options, and their encoding as XLA's CompileOptionsProto.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace torch_tpu::pjrt {

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  // Device ids in replica-major order, num_replicas * num_partitions of them; empty leaves the choice to the plugin.
  std::vector<int64_t> device_assignment;
  // Compile for no device in particular; ExecuteArgs::device then says where each run goes. Needs one replica, one
  // partition and no device assignment.
  bool portable = false;
  // Needed by plugins when num_partitions > 1.
  bool use_spmd_partitioning = false;
  // XLA flags for this program only, without the dashes: {"xla_allow_excess_precision", false}. Unlike XLA_FLAGS, an
  // unknown name is an error of the compilation and not the end of the process.
  using Override = std::variant<std::string, bool, int64_t, double>;
  std::map<std::string, Override> env_overrides;

  // Equal options give equal bytes, so the result can be part of a cache key. Throws std::invalid_argument when the
  // fields contradict each other.
  std::string serialize() const;
};

}  // namespace torch_tpu::pjrt
