// TORCH_TPU_LOG=level or component:level,... (levels: error, warn, info, debug). Off by default; lines go to stderr.
#pragma once

#include <string>

namespace torch_tpu::runtime {

enum class LogLevel { kOff, kError, kWarn, kInfo, kDebug };
bool log_enabled(const char* component, LogLevel level);
void log(const char* component, LogLevel level, const std::string& message);

}  // namespace torch_tpu::runtime
