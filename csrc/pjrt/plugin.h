// A PJRT plugin: a shared library that exports GetPjrtApi.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "pjrt/named_value.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// True when the plugin's function table reaches as far as `member` and the entry is filled. Functions newer than the
// plugin lie beyond its struct_size and must not even be read.
template <class Function>
bool has_function(const PJRT_Api& api, Function* PJRT_Api::* member) {
  const auto offset = reinterpret_cast<const char*>(&(api.*member)) - reinterpret_cast<const char*>(&api);
  return static_cast<size_t>(offset) + sizeof(Function*) <= api.struct_size && api.*member != nullptr;
}

// The first extension of that type in the plugin's chain, or null.
const PJRT_Extension_Base* find_extension(const PJRT_Api& api, PJRT_Extension_Type type);

// Throws PluginError when this build cannot talk to `api`: another major version or a table that is too short.
void check_api(const PJRT_Api* api, const std::string& path);

class Plugin {
 public:
  // Loads and initializes the plugin at `path`; a second call for the same file gives the same object. The library is
  // never closed: XLA starts threads and registers globals that cannot be undone. Throws PluginError.
  static std::shared_ptr<Plugin> load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const PJRT_Api& api() const { return *api_; }
  const std::string& path() const { return path_; }
  int major_version() const { return api_->pjrt_api_version.major_version; }
  int minor_version() const { return api_->pjrt_api_version.minor_version; }
  std::string api_version() const;  // "0.81"
  // xla_version, stablehlo_current_version, ...
  const NamedValues& attributes() const { return attributes_; }

  template <class Function>
  bool has_function(Function* PJRT_Api::* member) const {
    return pjrt::has_function(*api_, member);
  }

  // The extension as its own struct, or null where the plugin lacks it. Fields past base.struct_size must not be read.
  template <class Extension>
  const Extension* find_extension(PJRT_Extension_Type type) const {
    return reinterpret_cast<const Extension*>(pjrt::find_extension(*api_, type));
  }

 private:
  Plugin(std::string path, const PJRT_Api* api);

  std::string path_;
  const PJRT_Api* api_;  // static storage of the library
  NamedValues attributes_;
};

}  // namespace torch_tpu::pjrt
