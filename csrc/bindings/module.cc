// torch_tpu._C: what the Python package needs of the runtime. Thin.
#include <torch/extension.h>

#include "aten/backward_threads.h"
#include "aten/bridge.h"
#include "aten/device.h"
#include "aten/generator.h"
#include "aten/hooks.h"
#include "aten/op_entry.h"
#include "aten/settings.h"
#include "bindings/inspection.h"
#include "bindings/python_line.h"
#include "pjrt/large_blocks.h"
#include "pjrt/plugin.h"
#include "runtime/compile_pool.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"
#include "runtime/program_cache.h"
#include "runtime/session.h"
#include "runtime/trace.h"

namespace py = pybind11;

namespace torch_tpu {
namespace {

py::dict metrics() {
  const runtime::Metrics& m = runtime::metrics();
  py::dict d;
  d["compiles"] = m.compiles.load();
  d["cache_hits_memory"] = m.cache_hits_memory.load();
  d["cache_hits_disk"] = m.cache_hits_disk.load();
  d["executions"] = m.executions.load();
  d["fallbacks"] = m.fallbacks();
  d["bytes_h2d"] = m.bytes_h2d.load();
  d["bytes_d2h"] = m.bytes_d2h.load();
  d["transfers_h2d"] = m.transfers_h2d.load();
  d["transfers_d2h"] = m.transfers_d2h.load();
  d["compile_seconds"] = static_cast<double>(m.compile_nanoseconds) * 1e-9;
  d["lowering_seconds"] = static_cast<double>(m.lowering_nanoseconds) * 1e-9;
  d["cache_load_seconds"] = static_cast<double>(m.load_nanoseconds) * 1e-9;
  d["cache_errors"] = m.disk_errors.load();
  const runtime::ProgramCache& programs = runtime::ProgramCache::instance();
  const runtime::TraceCache& traces = runtime::TraceCache::instance();
  d["programs_in_memory"] = programs.size() + traces.size();
  d["traces_in_memory"] = traces.size();
  d["program_bytes"] = programs.bytes() + traces.bytes();
  d["programs_dropped"] = m.programs_dropped.load();
  d["fused_ops"] = m.fused_ops.load();
  py::dict flushes;
  for (int i = 0; i < runtime::kFlushReasons; ++i)
    if (const int64_t n = m.flushes[static_cast<size_t>(i)].load())
      flushes[runtime::to_string(static_cast<runtime::FlushReason>(i))] = n;
  d["flushes"] = flushes;
  return d;
}

py::dict device_properties(int index) {
  runtime::Session& session = runtime::Session::get();
  const pjrt::Client& client = session.client();
  const pjrt::Device& device = session.device(index);
  py::dict d;
  d["name"] = std::string(device.kind());
  d["platform"] = client.platform_name();
  d["platform_version"] = client.platform_version();
  d["plugin"] = session.plugin_path();
  d["plugin_reason"] = session.plugin_reason();
  d["pjrt_api_version"] = client.plugin().api_version();
  py::dict plugin_attributes, device_attributes;
  for (const auto& [name, value] : client.plugin().attributes())
    plugin_attributes[py::str(name)] = pjrt::to_string(value);
  for (const auto& [name, value] : device.attributes()) device_attributes[py::str(name)] = pjrt::to_string(value);
  d["plugin_attributes"] = plugin_attributes;
  d["attributes"] = device_attributes;
  d["total_memory"] = session.total_memory(index);
  d["device_id"] = device.id();
  d["has_host_memory"] = client.has_host_memory();
  return d;
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "The C++ side of torch_tpu.";
  aten::register_hooks();
  m.def("set_plugin_paths", [](std::string xla_cpu, std::string libtpu) {
    runtime::set_plugin_paths({std::move(xla_cpu), std::move(libtpu)});
  });
  m.def(
      "init", [] { aten::translate_errors([] { runtime::Session::get(); }); },
      py::call_guard<py::gil_scoped_release>());
  m.def("record_python_lines", &record_python_lines);
  m.def("is_initialized", &runtime::Session::started);
  m.def("device_count", &aten::device_count);
  m.def("current_device", &aten::current_device);
  m.def("set_device", &aten::set_device);
  m.def(
      "synchronize",
      [](int device) {
        aten::translate_errors([&] { aten::synchronize(device < 0 ? aten::current_device() : device); });
      },
      py::call_guard<py::gil_scoped_release>());
  m.def("device_properties",
        [](int device) { return aten::translate_errors([&] { return device_properties(device); }); });
  m.def("default_generator", [](int device) { return aten::default_generator(device); });
  m.def("metrics", &metrics);
  m.def("reset_metrics", [] { runtime::metrics().reset(); });
  m.def("is_in_bad_fork", &runtime::Session::in_bad_fork);
  m.def("empty_cache", [] {
    runtime::ProgramCache::instance().clear();
    runtime::TraceCache::instance().clear();
    runtime::clear_packed_cache();
    pjrt::release_large_blocks();
  });
  m.def(
      "flush_step", [] { runtime::flush_traces(runtime::FlushReason::kStep); },
      py::call_guard<py::gil_scoped_release>());
  m.def("drain_compilations", &runtime::drain_compilations, py::call_guard<py::gil_scoped_release>());
  m.def("drain_backward_threads", &aten::drain_backward_threads, py::call_guard<py::gil_scoped_release>());
  m.def("eager_mode", [] { return static_cast<int>(runtime::eager_mode()); });
  m.def(
      "set_eager_mode", [](int mode) { runtime::set_eager_mode(static_cast<runtime::EagerMode>(mode)); },
      py::call_guard<py::gil_scoped_release>());
  m.def("set_fallback", [](int policy) { aten::settings().fallback = static_cast<aten::FallbackPolicy>(policy); });
  m.def("precision", [] { return aten::settings().precision_override.load(); });
  m.def("set_precision", [](int precision) { aten::settings().precision_override = precision; });
  m.def("allow_excess_precision", [] { return aten::settings().allow_excess_precision.load(); });
  m.def("set_allow_excess_precision", [](bool on) { aten::settings().allow_excess_precision = on; });
  bind_inspection(m);
}

}  // namespace torch_tpu
