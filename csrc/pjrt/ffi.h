// Custom calls into host code through XLA's FFI.
#pragma once

#include <string>

#include "pjrt/plugin.h"

namespace torch_tpu::pjrt {

// Makes `handler` (an XLA_FFI_Handler*) the target of stablehlo.custom_call @target with api_version = 4 on `platform`
// ("Host" for the CPU plugin). False when the plugin has no FFI extension. Throws Error when it refuses the handler.
// A plugin may also drop a handler of a newer FFI version without a word: compile a call to be sure.
bool register_ffi_handler(const Plugin& plugin, const std::string& target, void* handler,
                          const std::string& platform = "Host");

}  // namespace torch_tpu::pjrt
