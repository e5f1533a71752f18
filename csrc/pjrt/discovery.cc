#include "pjrt/discovery.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "pjrt/error.h"

namespace torch_tpu::pjrt {
namespace {

namespace fs = std::filesystem;

std::string first_word(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && fs::exists(path, ignored);
}

bool has_tpu_on_pci(const fs::path& sysfs_root) {
  std::error_code failure;
  for (fs::directory_iterator it(sysfs_root / "bus/pci/devices", failure), end; !failure && it != end;
       it.increment(failure)) {
    if (first_word(it->path() / "vendor") != "0x1ae0") continue;
    // Google's virtual network and disk controllers, found on every Google VM, have the same vendor.
    const std::string kind = first_word(it->path() / "class");
    if (!kind.starts_with("0x01") && !kind.starts_with("0x02")) return true;
  }
  return false;
}

// The TPU driver makes /dev/accel0 and so on; the kernel's accelerators of other makers live in the folder /dev/accel.
bool has_accel_node(const fs::path& dev_root) {
  constexpr std::string_view kPrefix = "accel";
  std::error_code failure;
  for (fs::directory_iterator it(dev_root, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string name = it->path().filename().string();
    if (name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
        std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool tpu_chips_present(const std::string& sysfs_root, const std::string& dev_root) {
  return has_accel_node(dev_root) || has_tpu_on_pci(sysfs_root);
}

PluginChoice choose_plugin(const std::string& xla_cpu_path, const std::string& libtpu_path,
                           const std::string& sysfs_root, const std::string& dev_root) {
  const char* named = std::getenv("TPU_LIBRARY_PATH");
  if (named != nullptr && *named != '\0') {
    if (!exists(named)) {
      throw PluginError("TPU_LIBRARY_PATH names '" + std::string(named) +
                        "', which does not exist. Correct it or unset it; `pip install libtpu` gives TPU's plugin.");
    }
    return {named, "named by TPU_LIBRARY_PATH", "", /*is_named=*/true};
  }

  PluginChoice choice;
  if (tpu_chips_present(sysfs_root, dev_root)) {
    if (exists(libtpu_path)) return {libtpu_path, "TPU chips are present", ""};
    choice.warning =
        "TPU chips are present but libtpu is not installed, so programs run on the CPU: pip install libtpu";
    choice.reason = "libtpu is not installed";
  } else {
    choice.reason = "no TPU chips on this machine";
  }
  if (!exists(xla_cpu_path)) {
    throw PluginError(
        (xla_cpu_path.empty() ? "No PJRT plugin is installed"
                              : "The XLA CPU plugin '" + xla_cpu_path + "' does not exist") +
        std::string(" (") + choice.reason +
        "). Run `pip install xla-cpu-pjrt==0.0.1`, or `pip install libtpu` on a TPU VM, or set TPU_LIBRARY_PATH.");
  }
  choice.path = xla_cpu_path;
  return choice;
}

}  // namespace torch_tpu::pjrt
