// Named values: plugin attributes, device attributes, client options.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

using NamedValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue>;

// Copies values that the plugin owns.
NamedValues from_pjrt(const PJRT_NamedValue* values, size_t count);

// The result points into `values`, which must outlive it.
std::vector<PJRT_NamedValue> to_pjrt(const NamedValues& values);

std::string to_string(const NamedValue& value);
// "{name=value, ...}" for messages.
std::string to_string(const NamedValues& values);

}  // namespace torch_tpu::pjrt
