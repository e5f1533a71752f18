// Registers every lowering with PyTorch: its functional overload, and the in-place and out overloads that its schema
// implies.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <set>
#include <unordered_map>

#include "aten/op_entry.h"
#include "aten/prepare.h"

namespace torch_tpu::aten {
namespace {

struct Kernel final : c10::OperatorKernel {
  explicit Kernel(const OpEntry* e) : entry(e) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (entry->prepare && entry->prepare(*entry, stack)) return;
    run_entry(*entry, stack);
  }
  const OpEntry* entry;
};

bool same_argument(const c10::Argument& a, const c10::Argument& b) {
  return a.name() == b.name() && *a.real_type() == *b.real_type();
}

// Whether `candidate` is the in-place or out form of `functional`.
bool is_written_form(const c10::FunctionSchema& functional, const c10::FunctionSchema& candidate) {
  const auto& f = functional.arguments();
  const auto& c = candidate.arguments();
  if (c.size() < f.size()) return false;
  for (size_t i = 0; i < f.size(); ++i)
    if (!same_argument(f[i], c[i])) return false;
  size_t written = 0;
  // What the functional form writes too is no result (rrelu_with_noise's noise).
  for (size_t i = 0; i < c.size(); ++i) written += is_write(c[i]) && !(i < f.size() && is_write(f[i]));
  if (c.size() == f.size()) return written == 1 && is_write(c[0]);  // in-place
  for (size_t i = f.size(); i < c.size(); ++i)
    if (!is_write(c[i])) return false;
  return written == c.size() - f.size() && written == functional.returns().size();
}

std::string in_place_name(const std::string& name) {
  if (name.starts_with("__") && name.ends_with("__")) return "__i" + name.substr(2);
  return name + "_";
}

class Registrar {
 public:
  explicit Registrar(torch::Library& library) : library_(library) {
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
      if (name.name.starts_with("aten::")) overloads_[name.name.substr(6)].push_back(name.overload_name);
  }

  void add_all() {
    const lowering::Registry& registry = lowering::Registry::instance();
    for (const lowering::Lowering& lowering : registry.all()) {
      if (lowering.internal) continue;
      const size_t dot = lowering.name.find('.');
      const std::string base = lowering.name.substr(0, dot);
      const std::string overload = dot == std::string::npos ? "" : lowering.name.substr(dot + 1);
      auto functional = c10::Dispatcher::singleton().findSchema({"aten::" + base, overload});
      if (!functional) {  // a misspelt name must not break the import; a test asks for these
        unknown_lowerings().push_back(lowering.name);
        continue;
      }
      add(lowering, *functional, *functional);
      std::vector<std::string> names{in_place_name(base), base};
      // The out form of a composite op is written by the op behind it: conj_physical.out by _conj_physical.
      if (base.starts_with('_')) names.push_back(base.substr(1));
      for (const std::string& name : names) {
        auto it = overloads_.find(name);
        if (it == overloads_.end()) continue;
        for (const std::string& candidate : it->second) {
          const std::string full = candidate.empty() ? name : name + "." + candidate;
          if (registry.find(full)) continue;  // has a lowering of its own
          auto form = c10::Dispatcher::singleton().findSchema({"aten::" + name, candidate});
          if (form && is_written_form(functional->schema(), form->schema())) add(lowering, *form, *functional);
        }
      }
    }
  }

 private:
  void add(const lowering::Lowering& lowering, const c10::OperatorHandle& own, const c10::OperatorHandle& functional) {
    const std::string name = own.schema().name().substr(6) +
                             (own.schema().overload_name().empty() ? "" : "." + own.schema().overload_name());
    if (!registered_.insert(name).second) return;
    registered_overloads().emplace_back(lowering.name, name);
    auto entry = make_entry(lowering, own.schema(), own, functional);
    entry->prepare = prepare_function(name);
    library_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(entry.release())));
  }

  torch::Library& library_;
  std::unordered_map<std::string, std::vector<std::string>> overloads_;
  std::set<std::string> registered_;
};

}  // namespace

std::vector<std::string>& unknown_lowerings() {
  static auto* const names = new std::vector<std::string>;
  return *names;
}

std::vector<std::pair<std::string, std::string>>& registered_overloads() {
  static auto* const overloads = new std::vector<std::pair<std::string, std::string>>;
  return *overloads;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { Registrar(library).add_all(); }

}  // namespace torch_tpu::aten
