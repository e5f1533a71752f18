// Devices that need not be present: the target of ahead-of-time compilation.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pjrt/executable.h"
#include "pjrt/named_value.h"
#include "pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Owns a PJRT_TopologyDescription and keeps its Plugin loaded.
class Topology {
 public:
  // `name` is the plugin's own, for libtpu "v6e:2x2x1". Needs no client and no chip. Throws Error.
  static std::unique_ptr<Topology> create(std::shared_ptr<const Plugin> plugin, const std::string& name,
                                          const NamedValues& options = {});

  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const std::string& name() const { return name_; }
  std::string platform_name() const;
  std::string platform_version() const;
  size_t device_count() const;
  std::string device_kind() const;  // of the first device

  // Compiles StableHLO text. `options` is CompileOptions::serialize().
  std::unique_ptr<Executable> compile(std::string_view module_text, std::string_view options) const;

 private:
  struct Destroy {
    const PJRT_Api* api;
    void operator()(PJRT_TopologyDescription* topology) const;
  };

  Topology(std::shared_ptr<const Plugin> plugin, std::string name, PJRT_TopologyDescription* topology);

  std::shared_ptr<const Plugin> plugin_;
  const PJRT_Api* api_;
  std::string name_;
  std::unique_ptr<PJRT_TopologyDescription, Destroy> topology_;
};

}  // namespace torch_tpu::pjrt
