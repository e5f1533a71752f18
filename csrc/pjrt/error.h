// Errors of the PJRT layer.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// An error that the plugin reported. what() reads "<what was tried>: <the plugin's text> [CODE_NAME]".
class Error : public std::runtime_error {
 public:
  Error(PJRT_Error_Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  PJRT_Error_Code code() const { return code_; }
  // A run that finds no memory for its temporaries reports INTERNAL, with a text that says so.
  bool out_of_memory() const {
    return code_ == PJRT_Error_Code_RESOURCE_EXHAUSTED ||
           std::string_view(what()).find("Out of memory") != std::string_view::npos;
  }

 private:
  PJRT_Error_Code code_;
};

// No usable plugin: the file is missing, is no PJRT plugin, or speaks another version. what() says what to install.
class PluginError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// "INVALID_ARGUMENT" and so on.
const char* code_name(PJRT_Error_Code code);

// Turns `error` into an exception object and frees it. `error` must not be null.
Error take_error(const PJRT_Api* api, PJRT_Error* error, const char* what);

[[noreturn]] void throw_error(const PJRT_Api* api, PJRT_Error* error, const char* what);

// Throws Error, and frees `error`, unless it is null. Inline so that success costs one compare.
inline void check(const PJRT_Api* api, PJRT_Error* error, const char* what) {
  if (error != nullptr) [[unlikely]]
    throw_error(api, error, what);
}

// Like check, but an UNIMPLEMENTED error is freed and gives false. For queries that a plugin may lack.
bool check_supported(const PJRT_Api* api, PJRT_Error* error, const char* what);

}  // namespace torch_tpu::pjrt
