#include "aten/op_entry.h"

#include <ATen/core/type_factory.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

namespace torch_tpu::aten {
namespace {

using c10::TypeKind;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ArgumentKind kind_of(c10::TypePtr type) {
  while (type->kind() == TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  switch (type->kind()) {
    case TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case TypeKind::NumberType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return ArgumentKind::kScalar;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return ArgumentKind::kInt;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return ArgumentKind::kBool;
    case TypeKind::StringType:
      return ArgumentKind::kString;
    case TypeKind::ScalarTypeType:
      return ArgumentKind::kDtype;
    case TypeKind::DeviceObjType:
      return ArgumentKind::kDevice;
    case TypeKind::GeneratorType:
      return ArgumentKind::kGenerator;
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return ArgumentKind::kIgnored;
    case TypeKind::ListType: {
      const ArgumentKind element = kind_of(type->expectRef<c10::ListType>().getElementType());
      if (element == ArgumentKind::kTensor) return ArgumentKind::kTensorList;
      if (element == ArgumentKind::kScalar) return ArgumentKind::kScalarList;
      if (element == ArgumentKind::kBool) return ArgumentKind::kBoolList;
      return ArgumentKind::kIntList;
    }
    default:
      TORCH_CHECK(false, "torch_tpu: a schema has an argument of type ", type->str());
  }
}

bool is_list(c10::TypePtr type) { return type->kind() == TypeKind::ListType; }

OverlapRule overlap_rule(const std::string& schema_name) {
  std::string name = schema_name.substr(schema_name.find("::") + 2);
  while (name.ends_with('_')) name.pop_back();
  for (const char* fill : {"fill", "zero"})
    if (name == fill) return OverlapRule::kAny;
  for (const char* reader : {"cat", "gather", "index_select", "take"})
    if (name == reader) return OverlapRule::kNone;
  for (const char* writer : {"scatter", "scatter_add", "scatter_reduce", "index_copy", "index_add", "index_reduce",
                             "index_fill", "index_put", "_index_put_impl", "_unsafe_index_put", "put"})
    if (name == writer) return OverlapRule::kNoneButSelf;
  return OverlapRule::kExactOrNone;
}

// Whether a written argument is what the op returns, and not a second effect (rrelu_with_noise's noise). Ops that
// return nothing say so by writing.
bool is_result(const c10::FunctionSchema& schema, const c10::Argument& written) {
  if (schema.returns().empty()) return true;
  return std::any_of(schema.returns().begin(), schema.returns().end(), [&](const c10::Argument& r) {
    return r.alias_info() && r.alias_info()->beforeSets() == written.alias_info()->beforeSets();
  });
}

}  // namespace

std::unique_ptr<OpEntry> make_entry(const lowering::Lowering& lowering, const c10::FunctionSchema& schema,
                                    std::optional<c10::OperatorHandle> own,
                                    std::optional<c10::OperatorHandle> functional) {
  static std::atomic<uint32_t> next_id{1};
  auto entry = std::make_unique<OpEntry>();
  entry->id = next_id.fetch_add(1);
  entry->name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  entry->lowering = &lowering;
  entry->schema = &schema;
  entry->own = own;
  entry->functional = functional;
  entry->overlap = overlap_rule(schema.name());
  entry->is_foreach = entry->name.find("::_foreach_") != std::string::npos;
  const auto& returns = schema.returns();
  entry->returns_list = returns.size() == 1 && is_list(returns[0].type());

  std::vector<int> written;
  for (const c10::Argument& a : schema.arguments()) {
    OpEntry::Argument argument;
    argument.name = a.name();
    argument.kind = kind_of(a.real_type());
    if (argument.kind == ArgumentKind::kScalar && contains(lowering.structural_scalars, a.name()))
      argument.kind = ArgumentKind::kStructuralScalar;
    if (argument.kind == ArgumentKind::kScalarList && contains(lowering.structural_scalars, a.name()))
      argument.kind = ArgumentKind::kStructuralScalarList;
    if (argument.kind == ArgumentKind::kInt && contains(lowering.runtime_integers, a.name()))
      argument.kind = ArgumentKind::kRuntimeInt;
    // Dropped by the boxed walk: where memory is pinned changes no program.
    if (a.name() == "pin_memory" || a.name() == "non_blocking") argument.kind = ArgumentKind::kIgnored;
    if (argument.kind == ArgumentKind::kScalar && a.default_value() && !a.default_value()->isNone()) {
      const c10::IValue& v = *a.default_value();
      argument.has_default = v.isDouble() || v.isInt();
      if (argument.has_default) argument.default_value = v.isDouble() ? v.toDouble() : static_cast<double>(v.toInt());
    }
    const bool writes = is_write(a);
    if (writes && is_result(schema, a) && !contains(lowering.hidden_writes, a.name())) {
      argument.is_out = a.kwarg_only() && own && functional && *own != *functional;
      written.push_back(static_cast<int>(entry->arguments.size()));
    }
    entry->arguments.push_back(std::move(argument));
  }
  for (size_t k = 0; k < written.size(); ++k)
    entry->arguments[static_cast<size_t>(written[k])].returned_as = static_cast<int>(k);
  entry->writes_results = !written.empty();
  if (!entry->returns_list) {
    size_t next = 0;
    std::vector<int> aliased;
    for (size_t i = 0; i < schema.arguments().size(); ++i)
      if (is_write(schema.arguments()[i]) && is_result(schema, schema.arguments()[i]))
        aliased.push_back(static_cast<int>(i));
    for (const c10::Argument& r : returns) {
      entry->return_argument.push_back(is_write(r) ? aliased.at(next++) : -1);
      entry->returns_integer.push_back(kind_of(r.real_type()) == ArgumentKind::kInt);
    }
  }
  return entry;
}

const OpEntry& internal_entry(const char* schema) {
  static std::mutex mutex;
  static auto* const entries = new std::map<std::string, std::pair<c10::FunctionSchema, std::unique_ptr<OpEntry>>>;
  std::lock_guard lock(mutex);
  auto it = entries->find(schema);
  if (it == entries->end()) {
    it = entries->emplace(schema, std::pair{torch::jit::parseSchema(schema), std::unique_ptr<OpEntry>()}).first;
    const c10::FunctionSchema& parsed = it->second.first;
    // "tpu::arange" in a schema is "tpu.arange" in the registry: overload names hold the dots there.
    std::string name = parsed.name();
    if (const size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
    const lowering::Lowering* lowering = lowering::Registry::instance().find(name);
    TORCH_CHECK(lowering, "torch_tpu: no lowering named ", name);
    it->second.second = make_entry(*lowering, parsed, std::nullopt, std::nullopt);
  }
  return *it->second.second;
}

}  // namespace torch_tpu::aten
