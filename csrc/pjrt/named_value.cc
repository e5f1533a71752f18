#include "pjrt/named_value.h"

#include <type_traits>

namespace torch_tpu::pjrt {

NamedValues from_pjrt(const PJRT_NamedValue* values, size_t count) {
  NamedValues result;
  for (size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& value = values[i];
    NamedValue& slot = result[std::string(value.name, value.name_size)];
    switch (value.type) {
      case PJRT_NamedValue_kString:
        slot = std::string(value.string_value, value.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        slot = value.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        slot = std::vector<int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        slot = value.float_value;
        break;
      case PJRT_NamedValue_kBool:
        slot = value.bool_value;
        break;
    }
  }
  return result;
}

std::vector<PJRT_NamedValue> to_pjrt(const NamedValues& values) {
  std::vector<PJRT_NamedValue> result;
  result.reserve(values.size());
  for (const auto& [name, value] : values) {
    PJRT_NamedValue& out = result.emplace_back();
    out.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    out.name = name.data();
    out.name_size = name.size();
    out.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&value)) {
      out.type = PJRT_NamedValue_kString;
      out.string_value = text->data();
      out.value_size = text->size();
    } else if (const auto* number = std::get_if<int64_t>(&value)) {
      out.type = PJRT_NamedValue_kInt64;
      out.int64_value = *number;
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      out.type = PJRT_NamedValue_kInt64List;
      out.int64_array_value = list->data();
      out.value_size = list->size();
    } else if (const auto* real = std::get_if<float>(&value)) {
      out.type = PJRT_NamedValue_kFloat;
      out.float_value = *real;
    } else {
      out.type = PJRT_NamedValue_kBool;
      out.bool_value = std::get<bool>(value);
    }
  }
  return result;
}

std::string to_string(const NamedValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>) {
          return held;
        } else if constexpr (std::is_same_v<Held, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<Held, std::vector<int64_t>>) {
          std::string text = "[";
          for (int64_t element : held) text.append(text.size() > 1 ? ", " : "").append(std::to_string(element));
          return text + "]";
        } else {
          return std::to_string(held);
        }
      },
      value);
}

std::string to_string(const NamedValues& values) {
  std::string text = "{";
  for (const auto& [name, value] : values) {
    text.append(text.size() > 1 ? ", " : "").append(name).append("=").append(to_string(value));
  }
  return text + "}";
}

}  // namespace torch_tpu::pjrt
