#include "pjrt/executable.h"

#include <stdexcept>
#include <utility>

#include "pjrt/args.h"
#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/error.h"
#include "pjrt/plugin.h"

namespace torch_tpu::pjrt {

Executable::Executable(std::shared_ptr<const Plugin> plugin, PJRT_Executable* executable)
    : plugin_(std::move(plugin)), api_(&plugin_->api()), executable_(executable, Destroy{api_}) {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, args);
  args.executable = executable_.get();
  check(api_, api_->PJRT_Executable_NumOutputs(&args), "counting a program's outputs");
  num_outputs_ = args.num_outputs;
}

void Executable::Destroy::operator()(PJRT_Executable* executable) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
  args.executable = executable;
  api->PJRT_Executable_Destroy(&args);
}

std::string Executable::name() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Name_Args, args);
  args.executable = executable_.get();
  check(api_, api_->PJRT_Executable_Name(&args), "reading a program's name");
  return std::string(args.executable_name, args.executable_name_size);
}

std::vector<ElementType> Executable::output_types() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, args);
  args.executable = executable_.get();
  check(api_, api_->PJRT_Executable_OutputElementTypes(&args), "reading a program's output types");
  std::vector<ElementType> types;
  for (size_t i = 0; i < args.num_output_types; ++i) types.push_back(from_pjrt(args.output_types[i]));
  return types;
}

std::vector<std::vector<int64_t>> Executable::output_dims() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, args);
  args.executable = executable_.get();
  check(api_, api_->PJRT_Executable_OutputDimensions(&args), "reading a program's output dimensions");
  std::vector<std::vector<int64_t>> result;
  const int64_t* next = args.dims;
  for (size_t i = 0; i < args.num_outputs; ++i) {
    result.emplace_back(next, next + args.dim_sizes[i]);
    next += args.dim_sizes[i];
  }
  return result;
}

std::string Executable::serialize() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = executable_.get();
  check(api_, api_->PJRT_Executable_Serialize(&args), "serializing a program");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

std::optional<std::string> Executable::fingerprint() const {
  if (!plugin_->has_function(&PJRT_Api::PJRT_Executable_Fingerprint)) return std::nullopt;
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Fingerprint_Args, args);
  args.executable = executable_.get();
  if (!check_supported(api_, api_->PJRT_Executable_Fingerprint(&args), "reading a program's fingerprint")) {
    return std::nullopt;
  }
  return std::string(args.executable_fingerprint, args.executable_fingerprint_size);
}

std::map<std::string, double> Executable::cost_analysis() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, args);
  args.executable = executable_.get();
  std::map<std::string, double> costs;
  if (!check_supported(api_, api_->PJRT_Executable_GetCostAnalysis(&args), "analyzing a program's cost")) return costs;
  for (size_t i = 0; i < args.num_properties; ++i) {
    const PJRT_NamedValue& value = args.properties[i];
    const std::string name(value.name, value.name_size);
    if (value.type == PJRT_NamedValue_kFloat) costs[name] = value.float_value;
    if (value.type == PJRT_NamedValue_kInt64) costs[name] = static_cast<double>(value.int64_value);
  }
  return costs;
}

std::optional<CompiledMemoryStats> Executable::compiled_memory_stats() const {
  if (!plugin_->has_function(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) return std::nullopt;
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = executable_.get();
  if (!check_supported(api_, api_->PJRT_Executable_GetCompiledMemoryStats(&args), "reading a program's memory needs")) {
    return std::nullopt;
  }
  return CompiledMemoryStats{
      .generated_code = args.generated_code_size_in_bytes,
      .arguments = args.argument_size_in_bytes,
      .outputs = args.output_size_in_bytes,
      .aliased = args.alias_size_in_bytes,
      .temporaries = args.temp_size_in_bytes,
      .peak = args.peak_memory_in_bytes,
  };
}

std::optional<OptimizedProgram> Executable::optimized_program() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Program, program);
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_OptimizedProgram_Args, args);
  args.executable = executable_.get();
  args.program = &program;
  // The first call gives the size, the second fills the room made for it.
  if (!check_supported(api_, api_->PJRT_Executable_OptimizedProgram(&args), "reading the optimized program")) {
    return std::nullopt;
  }
  OptimizedProgram result;
  result.code.resize(program.code_size);
  program.code = result.code.data();
  check(api_, api_->PJRT_Executable_OptimizedProgram(&args), "reading the optimized program");
  result.format.assign(program.format, program.format_size);
  return result;
}

LoadedExecutable::LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* executable)
    : client_(std::move(client)), api_(client_->api()), loaded_(executable, Destroy{api_}) {
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = loaded_.get();
  check(api_, api_->PJRT_LoadedExecutable_GetExecutable(&args), "describing a loaded program");
  executable_ = std::make_unique<const Executable>(client_->shared_plugin(), args.executable);
}

void LoadedExecutable::Destroy::operator()(PJRT_LoadedExecutable* executable) const {
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = executable;
  api->PJRT_LoadedExecutable_Destroy(&args);
}

void LoadedExecutable::execute(std::span<PJRT_Buffer* const> args, std::span<PJRT_Buffer*> outputs,
                               const ExecuteArgs& options) const {
  if (outputs.size() != num_outputs()) [[unlikely]] {
    throw std::invalid_argument("execute: the program has " + std::to_string(num_outputs()) + " outputs, room is for " +
                                std::to_string(outputs.size()));
  }
  TORCH_TPU_PJRT_ARGS(PJRT_ExecuteOptions, execute_options);
  execute_options.launch_id = options.launch_id;
  execute_options.non_donatable_input_indices = options.non_donatable.data();
  execute_options.num_non_donatable_input_indices = options.non_donatable.size();

  PJRT_Buffer* const* argument_list = args.data();
  PJRT_Buffer** output_list = outputs.data();
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, execute);
  execute.executable = loaded_.get();
  execute.options = &execute_options;
  execute.argument_lists = &argument_list;
  execute.num_devices = 1;
  execute.num_args = args.size();
  execute.output_lists = &output_list;
  execute.device_complete_events = options.complete_event;
  execute.execute_device = options.device;
  check(api_, api_->PJRT_LoadedExecutable_Execute(&execute), "executing a program");
}

void LoadedExecutable::execute_replicas(std::span<PJRT_Buffer* const* const> args, size_t num_args,
                                        std::span<PJRT_Buffer** const> outputs,
                                        const ReplicaExecuteArgs& options) const {
  if (outputs.size() != args.size() ||
      (!options.complete_events.empty() && options.complete_events.size() != args.size())) {
    throw std::invalid_argument("execute_replicas: arguments, outputs and events are for different numbers of devices");
  }
  TORCH_TPU_PJRT_ARGS(PJRT_ExecuteOptions, execute_options);
  execute_options.launch_id = options.launch_id;
  execute_options.non_donatable_input_indices = options.non_donatable.data();
  execute_options.num_non_donatable_input_indices = options.non_donatable.size();

  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, execute);
  execute.executable = loaded_.get();
  execute.options = &execute_options;
  execute.argument_lists = args.data();
  execute.num_devices = args.size();
  execute.num_args = num_args;
  execute.output_lists = outputs.data();
  execute.device_complete_events = options.complete_events.empty() ? nullptr : options.complete_events.data();
  check(api_, api_->PJRT_LoadedExecutable_Execute(&execute), "executing a program on several devices");
}

std::vector<Device> LoadedExecutable::addressable_devices() const {
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices_Args, args);
  args.executable = loaded_.get();
  check(api_, api_->PJRT_LoadedExecutable_AddressableDevices(&args), "listing a program's devices");
  std::vector<Device> devices;
  for (size_t i = 0; i < args.num_addressable_devices; ++i) devices.emplace_back(api_, args.addressable_devices[i]);
  return devices;
}

}  // namespace torch_tpu::pjrt
