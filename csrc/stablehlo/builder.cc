#include "stablehlo/builder.h"

#include "stablehlo/fusion_cuts.h"
#include "stablehlo/op_cost.h"

namespace torch_tpu::stablehlo {

std::string to_string(const TensorType& type) {
  std::string s = "tensor<";
  for (int64_t d : type.dims) {
    s += std::to_string(d);
    s += 'x';
  }
  s += element_type_info(type.element).mlir;
  s += '>';
  return s;
}

static std::string join(std::span<const int64_t> values) {
  std::string s;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) s += ", ";
    s += std::to_string(values[i]);
  }
  return s;
}

std::string i64_array(std::span<const int64_t> values) {
  return values.empty() ? "array<i64>" : "array<i64: " + join(values) + ">";
}

std::string bracket_list(std::span<const int64_t> values) { return "[" + join(values) + "]"; }

Builder::Builder() { scopes_.emplace_back(); }
Builder::~Builder() = default;

void Builder::set_fusion_limit(int work) { fusion_cuts_ = std::make_unique<FusionCuts>(work); }

int Builder::new_value(const TensorType& type) {
  types_.push_back(type);
  return static_cast<int>(types_.size()) - 1;
}

Value Builder::parameter(const TensorType& type) {
  int id = new_value(type);
  parameters_.push_back(id);
  parameter_alias_.push_back(-1);
  return {this, id};
}

void Builder::alias_parameter(int parameter, int output) {
  parameter_alias_.at(static_cast<size_t>(parameter)) = output;
}

static std::string type_list(std::span<const TensorType> types) {
  std::string s = "(";
  for (size_t i = 0; i < types.size(); ++i) {
    if (i) s += ", ";
    s += to_string(types[i]);
  }
  return s + ")";
}

std::string Builder::region_text(const Region& region) {
  scopes_.emplace_back();
  std::vector<Value> arguments;
  std::string header = "^bb0(";
  for (size_t i = 0; i < region.arguments.size(); ++i) {
    arguments.emplace_back(this, new_value(region.arguments[i]));
    if (i) header += ", ";
    header += "%" + std::to_string(arguments.back().id()) + ": " + to_string(region.arguments[i]);
  }
  header += "):\n";
  std::vector<Value> results = region.body(arguments);
  std::string terminator = "\"stablehlo.return\"(";
  std::vector<TensorType> types;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i) terminator += ", ";
    terminator += "%" + std::to_string(results[i].id());
    types.push_back(results[i].type());
  }
  terminator += ") : " + type_list(types) + " -> ()\n";
  // A region without block arguments (case, if) has an unnamed entry block.
  std::string text =
      "{\n" + (region.arguments.empty() ? std::string() : header) + scopes_.back().text + terminator + "}";
  scopes_.pop_back();
  return text;
}

std::vector<Value> Builder::emit_with_regions(std::string_view name, std::span<const Value> operands,
                                              std::string_view attributes, const std::vector<TensorType>& results,
                                              std::span<const Region> regions) {
  std::string op = "\"";
  op += name;
  op += "\"(";
  std::vector<TensorType> operand_types;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (&operands[i].builder() != this) throw TypeError(std::string(name) + ": operand of another builder");
    if (i) op += ", ";
    op += "%" + std::to_string(operands[i].id());
    operand_types.push_back(operands[i].type());
  }
  op += ")";
  if (!regions.empty()) {
    op += " (";
    for (size_t i = 0; i < regions.size(); ++i) {
      if (i) op += ", ";
      op += region_text(regions[i]);
    }
    op += ")";
  }
  if (!attributes.empty()) {
    op += " {";
    op += attributes;
    op += "}";
  }
  op += " : " + type_list(operand_types) + " -> " + (results.size() == 1 ? to_string(results[0]) : type_list(results));

  Scope& scope = scopes_.back();
  // Values in a region's text are numbered freshly, so two ops with regions never look equal; custom calls may have
  // effects. Neither is shared.
  const bool shareable = regions.empty() && name != "stablehlo.custom_call";
  std::vector<Value> values;
  if (shareable) {
    if (auto it = scope.seen.find(op); it != scope.seen.end()) {
      for (size_t i = 0; i < results.size(); ++i) values.emplace_back(this, it->second + static_cast<int>(i));
      return values;
    }
  }
  std::string line;
  for (size_t i = 0; i < results.size(); ++i) {
    values.emplace_back(this, new_value(results[i]));
    if (i) line += ", ";
    line += "%" + std::to_string(values.back().id());
  }
  scope.text += line + " = " + op + "\n";
  ++num_ops_;
  flops_ += flops_of(name, operand_types, results);
  if (fusion_cuts_ && scopes_.size() == 1 && fusion_cuts_->cuts_after(name, operands, values))
    values = cut_off(values, results);
  if (shareable) scope.seen.emplace(std::move(op), values.front().id());
  return values;
}

// XLA removes its own barriers before it fuses, but fuses nothing across a call that it must not inline.
std::vector<Value> Builder::cut_off(std::span<const Value> values, std::span<const TensorType> types) {
  const std::string type_text = type_list(types);
  const auto [it, fresh] = identities_.emplace(type_text, "identity" + std::to_string(identities_.size()));
  if (fresh) {
    std::string arguments, names;
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string name = (i ? ", %" : "%") + std::to_string(i);
      arguments += name + ": " + to_string(types[i]);
      names += name;
    }
    functions_ += "func.func private @" + it->second + "(" + arguments + ") -> " + type_text + " {\n\"func.return\"(" +
                  names + ") : " + type_text + " -> ()\n}\n";
  }
  return emit("func.call", values, "callee = @" + it->second + ", mhlo.frontend_attributes = {inlineable = \"false\"}",
              types);
}

std::vector<Value> Builder::emit(std::string_view name, std::span<const Value> operands, std::string_view attributes,
                                 std::span<const TensorType> results, std::span<const Region> regions) {
  return emit_with_regions(name, operands, attributes, std::vector<TensorType>(results.begin(), results.end()),
                           regions);
}

Value Builder::emit1(std::string_view name, std::initializer_list<Value> operands, std::string_view attributes,
                     TensorType result) {
  return emit(name, std::span<const Value>(operands.begin(), operands.size()), attributes,
              std::span<const TensorType>(&result, 1))[0];
}

std::string Builder::finish(std::span<const Value> results) {
  std::string module = "module @main {\n" + functions_ + "func.func public @main(";
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (i) module += ", ";
    module += "%" + std::to_string(parameters_[i]) + ": " + to_string(type_of(parameters_[i]));
    if (parameter_alias_[i] >= 0) module += " {tf.aliasing_output = " + std::to_string(parameter_alias_[i]) + " : i32}";
  }
  std::vector<TensorType> types;
  std::string values;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i) values += ", ";
    values += "%" + std::to_string(results[i].id());
    types.push_back(results[i].type());
  }
  module += ") -> " + type_list(types) + " {\n" + scopes_.front().text;
  module += "\"func.return\"(" + values + ") : " + type_list(types) + " -> ()\n}\n}\n";
  return module;
}

}  // namespace torch_tpu::stablehlo
