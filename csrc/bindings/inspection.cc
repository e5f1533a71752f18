#include "bindings/inspection.h"

#include "aten/bridge.h"
#include "aten/op_entry.h"
#include "lowering/registry.h"
#include "pjrt/element_type.h"
#include "pjrt/topology.h"
#include "runtime/module_record.h"
#include "runtime/session.h"

namespace py = pybind11;

namespace torch_tpu {
namespace {

std::vector<std::string> type_names(const std::vector<ElementType>& types) {
  std::vector<std::string> names;
  for (const ElementType t : types) names.emplace_back(name_of(t));
  return names;
}

// The registration of every op, in order.
py::list lowerings() {
  std::map<std::string, std::vector<std::string>> overloads;
  for (const auto& [lowering, overload] : aten::registered_overloads()) overloads[lowering].push_back(overload);
  py::list list;
  for (const lowering::Lowering& lowering : lowering::Registry::instance().all()) {
    if (lowering.internal) continue;
    py::list limits;
    for (const auto& limit : lowering.tpu_limits) limits.append(py::make_tuple(type_names(limit.types), limit.reason));
    py::dict d;
    d["name"] = lowering.name;
    d["overloads"] = overloads[lowering.name];
    d["structural"] = lowering.structural_scalars;
    d["runtime"] = lowering.runtime_integers;
    d["mutates"] = lowering.hidden_writes;
    d["note"] = lowering.remark;
    d["not_on_tpu"] = limits;
    list.append(d);
  }
  return list;
}

py::list take_tpu_programs() {
  py::list list;
  for (const runtime::TpuProgram& p : runtime::take_tpu_programs()) {
    py::dict d;
    d["op"] = p.op;
    d["lowering"] = p.lowering;
    d["types"] = type_names(p.types);
    d["nbytes"] = p.nbytes;
    d["text"] = p.text;
    d["error"] = p.error;
    list.append(d);
  }
  return list;
}

// Compiles for a device that need not be there.
class TopologyCompiler {
 public:
  TopologyCompiler(const std::string& plugin, const std::string& topology)
      : topology_(pjrt::Topology::create(pjrt::Plugin::load(plugin), topology)) {}

  // Bytes of the program's memory.
  std::map<std::string, int64_t> compile(const std::string& text) const {
    lowering::Target target;
    target.platform = lowering::Target::Platform::kTpu;
    const auto program = topology_->compile(text, runtime::Session::compile_options(target, false));
    const auto stats = program->compiled_memory_stats().value_or(pjrt::CompiledMemoryStats{});
    return {{"code", stats.generated_code}, {"temporaries", stats.temporaries}};
  }

 private:
  std::unique_ptr<pjrt::Topology> topology_;
};

}  // namespace

void bind_inspection(py::module_& m) {
  m.def("unknown_lowerings", [] { return aten::unknown_lowerings(); });
  m.def("registered_ops", [] {
    std::vector<std::string> names;
    for (const auto& lowering : lowering::Registry::instance().all())
      if (!lowering.internal) names.push_back(lowering.name);
    return names;
  });
  m.def("lowerings", &lowerings);
  m.def("set_module_recording", &runtime::set_module_recording);
  m.def("take_recorded_modules", &runtime::take_recorded_modules);
  m.def("compile_options", [] {
    return py::bytes(aten::translate_errors(
        [] { return runtime::Session::compile_options(runtime::Session::get().target(), false); }));
  });
  m.def("set_tpu_program_recording", &runtime::set_tpu_program_recording);
  m.def("take_tpu_programs", &take_tpu_programs);
  py::class_<TopologyCompiler>(m, "TopologyCompiler")
      .def(py::init([](const std::string& plugin, const std::string& topology) {
        return aten::translate_errors([&] { return std::make_unique<TopologyCompiler>(plugin, topology); });
      }))
      .def("compile", [](const TopologyCompiler& self, const std::string& text) {
        py::gil_scoped_release released;
        return aten::translate_errors([&] { return self.compile(text); });
      });
}

}  // namespace torch_tpu
