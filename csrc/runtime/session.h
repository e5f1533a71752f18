// The process's connection to its devices: made at first use, not at import.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lowering/op.h"
#include "pjrt/client.h"
#include "runtime/disk_cache.h"
#include "runtime/memory.h"

namespace torch_tpu::runtime {

// Where the plugins are; the Python package says so at import, without loading anything.
struct PluginPaths {
  std::string xla_cpu, libtpu;
};
void set_plugin_paths(PluginPaths paths);

struct CompiledProgram {
  std::unique_ptr<pjrt::LoadedExecutable> executable;
  int64_t bytes = 0;  // as it is stored; without a disk cache, what the plugin says of its code
};

class Session {
 public:
  // Starts the client on the first call. Throws pjrt::PluginError or pjrt::Error; a failure is not remembered, so the
  // next call tries again. In a child of fork() of a process with a client, throws std::runtime_error: XLA's threads
  // do not survive a fork.
  static Session& get();
  static bool started();
  // True in a child of fork() whose parent had a client.
  static bool in_bad_fork();
  // Devices that there will be, without failing: 0 when no plugin can be loaded.
  static int device_count() noexcept;

  pjrt::Client& client() { return *client_; }
  const pjrt::Device& device(int index) const;
  int num_devices() const { return static_cast<int>(client_->addressable_devices().size()); }
  const lowering::Target& target() const { return target_; }
  const std::string& plugin_path() const { return plugin_path_; }
  const std::string& plugin_reason() const { return plugin_reason_; }
  // Identifies plugin, XLA version, platform and CPU features: what a disk entry is only good for.
  const std::string& fingerprint() const { return fingerprint_; }
  // Bytes of one device's memory: what the plugin says, else the machine's.
  int64_t total_memory(int device) const;
  DiskCache* disk_cache() { return disk_cache_.get(); }

  // How programs are compiled for a target, as PJRT takes it.
  static std::string compile_options(const lowering::Target& target, bool allow_excess_precision);

  // Loads the program from disk, or compiles it and stores it there. A program that another process or thread is
  // compiling is waited for.
  CompiledProgram compile(const std::string& module_text, bool allow_excess_precision);

 private:
  Session();
  CompiledProgram load_or_compile(const std::string& module_text, bool allow_excess_precision);
  CompiledProgram load(const std::string& key);  // null where the disk has none
  std::shared_ptr<pjrt::Client> client_;
  lowering::Target target_;
  std::string plugin_path_, plugin_reason_, fingerprint_;
  std::unique_ptr<DiskCache> disk_cache_;
};

}  // namespace torch_tpu::runtime
