// Which plugin to load.
#pragma once

#include <string>

namespace torch_tpu::pjrt {

struct PluginChoice {
  std::string path;
  std::string reason;     // why this one, for logs and torch.tpu's environment report
  std::string warning;    // not empty when the choice is likely not what the user wants
  bool is_named = false;  // by TPU_LIBRARY_PATH
};

// True when this machine has TPU chips: a PCI device of Google that is no network or storage device, or /dev/accelN.
bool tpu_chips_present(const std::string& sysfs_root = "/sys", const std::string& dev_root = "/dev");

// In this order: the environment variable TPU_LIBRARY_PATH; `libtpu_path` when it exists and chips are present;
// `xla_cpu_path`. Empty paths mean "not installed". Throws PluginError, which says what to install, when the choice
// does not exist.
PluginChoice choose_plugin(const std::string& xla_cpu_path, const std::string& libtpu_path,
                           const std::string& sysfs_root = "/sys", const std::string& dev_root = "/dev");

}  // namespace torch_tpu::pjrt
