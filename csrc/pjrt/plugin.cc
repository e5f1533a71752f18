#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "pjrt/args.h"
#include "pjrt/error.h"

namespace torch_tpu::pjrt {
namespace {

constexpr const char* kInstall =
    "Install a plugin with `pip install xla-cpu-pjrt==0.0.1` (CPU) or `pip install libtpu` (TPU VM).";

}  // namespace

const PJRT_Extension_Base* find_extension(const PJRT_Api& api, PJRT_Extension_Type type) {
  for (const PJRT_Extension_Base* extension = api.extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type == type) return extension;
  }
  return nullptr;
}

void check_api(const PJRT_Api* api, const std::string& path) {
  if (api == nullptr) throw PluginError(path + ": GetPjrtApi returned null. " + kInstall);
  const PJRT_Api_Version& version = api->pjrt_api_version;
  const std::string spoken = std::to_string(version.major_version) + "." + std::to_string(version.minor_version);
  if (version.major_version != PJRT_API_MAJOR) {
    throw PluginError(path + ": speaks PJRT API " + spoken + ", but this build of torch_tpu needs major version " +
                      std::to_string(PJRT_API_MAJOR) + ". " + kInstall);
  }
  // All that this layer calls without asking lies up to this entry.
  if (!has_function(*api, &PJRT_Api::PJRT_Executable_OutputDimensions)) {
    throw PluginError(path + ": speaks PJRT API " + spoken + ", which is too old for this build of torch_tpu. " +
                      kInstall);
  }
}

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  // Initialization may happen once per process. The map keeps plugins for good, as the libraries stay loaded anyway; it
  // is never destroyed, so a load during exit is safe.
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::shared_ptr<Plugin>>;

  std::error_code failure;
  const std::string file = std::filesystem::canonical(path, failure).string();
  if (failure) throw PluginError("No PJRT plugin at '" + path + "'. " + kInstall);

  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Plugin>& slot = loaded[file];
  if (slot != nullptr) return slot;

  // XLA prints a page of INFO lines for each client unless asked not to; jax sets the same default.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw PluginError("Cannot load the PJRT plugin " + file + ": " + dlerror() + ". " + kInstall);
  }
  auto get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) throw PluginError(file + " is no PJRT plugin: it has no GetPjrtApi. " + kInstall);
  const PJRT_Api* api = get_api();
  check_api(api, file);
  slot = std::shared_ptr<Plugin>(new Plugin(file, api));
  return slot;
}

Plugin::Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {
  TORCH_TPU_PJRT_ARGS(PJRT_Plugin_Initialize_Args, initialize);
  check(api_, api_->PJRT_Plugin_Initialize(&initialize), "initializing the PJRT plugin");

  TORCH_TPU_PJRT_ARGS(PJRT_Plugin_Attributes_Args, attributes);
  if (check_supported(api_, api_->PJRT_Plugin_Attributes(&attributes), "reading the plugin's attributes")) {
    attributes_ = from_pjrt(attributes.attributes, attributes.num_attributes);
  }
}

std::string Plugin::api_version() const {
  return std::to_string(major_version()) + "." + std::to_string(minor_version());
}

}  // namespace torch_tpu::pjrt
