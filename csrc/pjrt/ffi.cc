#include "pjrt/ffi.h"

#include <cstddef>

#include "pjrt/args.h"
#include "pjrt/error.h"

namespace torch_tpu::pjrt {
namespace {

// The plugin's header for this extension is not shipped with pjrt_c_api.h, so the part that is used is declared here.
struct RegisterHandlerArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits;
};
constexpr size_t RegisterHandlerArgs_STRUCT_SIZE = PJRT_STRUCT_SIZE(RegisterHandlerArgs, traits);

struct FfiExtension {
  PJRT_Extension_Base base;
  void* register_type;
  void* add_user_data;
  PJRT_Error* (*register_handler)(RegisterHandlerArgs* args);
};

}  // namespace

bool register_ffi_handler(const Plugin& plugin, const std::string& target, void* handler, const std::string& platform) {
  const auto* extension = plugin.find_extension<FfiExtension>(PJRT_Extension_Type_FFI);
  if (extension == nullptr || extension->base.struct_size < sizeof(FfiExtension) ||
      extension->register_handler == nullptr) {
    return false;
  }
  TORCH_TPU_PJRT_ARGS(RegisterHandlerArgs, args);
  args.target_name = target.data();
  args.target_name_size = target.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  const std::string what = "registering the custom call '" + target + "'";
  check(&plugin.api(), extension->register_handler(&args), what.c_str());
  return true;
}

}  // namespace torch_tpu::pjrt
