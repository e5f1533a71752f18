#include "pjrt/topology.h"

#include <utility>
#include <vector>

#include "pjrt/args.h"
#include "pjrt/error.h"

namespace torch_tpu::pjrt {
namespace {

PJRT_TopologyDescription_GetDeviceDescriptions_Args describe_devices(const PJRT_Api* api,
                                                                     const PJRT_TopologyDescription* topology) {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, args);
  args.topology = topology;
  check(api, api->PJRT_TopologyDescription_GetDeviceDescriptions(&args), "listing a topology's devices");
  return args;
}

}  // namespace

std::unique_ptr<Topology> Topology::create(std::shared_ptr<const Plugin> plugin, const std::string& name,
                                           const NamedValues& options) {
  const PJRT_Api* api = &plugin->api();
  const std::vector<PJRT_NamedValue> named = to_pjrt(options);
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = named.data();
  args.num_options = named.size();
  const std::string what = "describing the topology '" + name + "' with " + plugin->path();
  check(api, api->PJRT_TopologyDescription_Create(&args), what.c_str());
  return std::unique_ptr<Topology>(new Topology(std::move(plugin), name, args.topology));
}

Topology::Topology(std::shared_ptr<const Plugin> plugin, std::string name, PJRT_TopologyDescription* topology)
    : plugin_(std::move(plugin)), api_(&plugin_->api()), name_(std::move(name)), topology_(topology, Destroy{api_}) {}

void Topology::Destroy::operator()(PJRT_TopologyDescription* topology) const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, args);
  args.topology = topology;
  api->PJRT_TopologyDescription_Destroy(&args);
}

std::string Topology::platform_name() const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_PlatformName_Args, args);
  args.topology = topology_.get();
  check(api_, api_->PJRT_TopologyDescription_PlatformName(&args), "reading a topology's platform");
  return std::string(args.platform_name, args.platform_name_size);
}

std::string Topology::platform_version() const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion_Args, args);
  args.topology = topology_.get();
  check(api_, api_->PJRT_TopologyDescription_PlatformVersion(&args), "reading a topology's platform version");
  return std::string(args.platform_version, args.platform_version_size);
}

size_t Topology::device_count() const { return describe_devices(api_, topology_.get()).num_descriptions; }

std::string Topology::device_kind() const {
  const auto devices = describe_devices(api_, topology_.get());
  if (devices.num_descriptions == 0) return "";
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, args);
  args.device_description = devices.descriptions[0];
  check(api_, api_->PJRT_DeviceDescription_Kind(&args), "reading a device's kind");
  return std::string(args.device_kind, args.device_kind_size);
}

std::unique_ptr<Executable> Topology::compile(std::string_view module_text, std::string_view options) const {
  constexpr std::string_view kFormat = "mlir";
  TORCH_TPU_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(module_text.data());  // only read
  program.code_size = module_text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();

  TORCH_TPU_PJRT_ARGS(PJRT_Compile_Args, args);
  args.topology = topology_.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  const std::string what = "compiling a program for " + name_;
  check(api_, api_->PJRT_Compile(&args), what.c_str());
  return std::make_unique<Executable>(plugin_, args.executable);
}

}  // namespace torch_tpu::pjrt
