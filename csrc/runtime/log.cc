#include "runtime/log.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

namespace torch_tpu::runtime {
namespace {

LogLevel parse_level(std::string_view s) {
  if (s == "error") return LogLevel::kError;
  if (s == "warn" || s == "warning") return LogLevel::kWarn;
  if (s == "info") return LogLevel::kInfo;
  if (s == "debug") return LogLevel::kDebug;
  return LogLevel::kOff;
}

struct Settings {
  LogLevel everything = LogLevel::kOff;
  std::map<std::string, LogLevel, std::less<>> components;

  Settings() {
    const char* text = std::getenv("TORCH_TPU_LOG");
    std::string_view rest = text ? text : "";
    while (!rest.empty()) {
      std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(item.size() == rest.size() ? rest.size() : item.size() + 1);
      const size_t colon = item.find(':');
      if (colon == std::string_view::npos) {
        everything = parse_level(item);
      } else {
        components[std::string(item.substr(0, colon))] = parse_level(item.substr(colon + 1));
      }
    }
  }
};

const Settings& settings() {
  static const Settings* const instance = new Settings;
  return *instance;
}

}  // namespace

bool log_enabled(const char* component, LogLevel level) {
  const Settings& s = settings();
  if (s.components.empty()) return level <= s.everything && level != LogLevel::kOff;
  auto it = s.components.find(component);
  return level <= (it == s.components.end() ? s.everything : it->second);
}

void log(const char* component, LogLevel level, const std::string& message) {
  if (log_enabled(component, level)) std::fprintf(stderr, "[torch_tpu %s] %s\n", component, message.c_str());
}

}  // namespace torch_tpu::runtime
