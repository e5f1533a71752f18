#include "pjrt/client.h"

#include <stdexcept>
#include <utility>

#include "pjrt/args.h"
#include "pjrt/error.h"
#include "pjrt/executable.h"

namespace torch_tpu::pjrt {
namespace {

PJRT_HostBufferSemantics to_pjrt(HostBufferSemantics semantics) {
  switch (semantics) {
    case HostBufferSemantics::kImmutableUntilTransferCompletes:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostBufferSemantics::kImmutableZeroCopy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostBufferSemantics::kMutableZeroCopy:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
    case HostBufferSemantics::kImmutableOnlyDuringCall:
      break;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

}  // namespace

std::shared_ptr<Client> Client::create(std::shared_ptr<Plugin> plugin, const NamedValues& options) {
  const PJRT_Api* api = &plugin->api();
  const std::vector<PJRT_NamedValue> named = to_pjrt(options);
  TORCH_TPU_PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = named.data();
  args.num_options = named.size();
  const std::string what =
      "creating a client of " + plugin->path() + (options.empty() ? "" : " with options " + to_string(options));
  check(api, api->PJRT_Client_Create(&args), what.c_str());

  std::shared_ptr<Client> client(new Client(std::move(plugin), args.client));
  if (client->addressable_devices_.empty()) {
    throw Error(PJRT_Error_Code_NOT_FOUND, what + ": the client has no device");
  }
  return client;
}

Client::Client(std::shared_ptr<Plugin> plugin, PJRT_Client* client)
    : plugin_(std::move(plugin)), api_(&plugin_->api()), client_(client, Destroy{api_}) {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = client_.get();
  check(api_, api_->PJRT_Client_PlatformName(&name), "reading the platform's name");
  platform_name_.assign(name.platform_name, name.platform_name_size);

  TORCH_TPU_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = client_.get();
  check(api_, api_->PJRT_Client_PlatformVersion(&version), "reading the platform's version");
  platform_version_.assign(version.platform_version, version.platform_version_size);

  TORCH_TPU_PJRT_ARGS(PJRT_Client_ProcessIndex_Args, process);
  process.client = client_.get();
  check(api_, api_->PJRT_Client_ProcessIndex(&process), "reading the process index");
  process_index_ = process.process_index;

  TORCH_TPU_PJRT_ARGS(PJRT_Client_Devices_Args, all);
  all.client = client_.get();
  check(api_, api_->PJRT_Client_Devices(&all), "listing devices");
  for (size_t i = 0; i < all.num_devices; ++i) {
    devices_.emplace_back(api_, all.devices[i]);
  }

  TORCH_TPU_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, own);
  own.client = client_.get();
  check(api_, api_->PJRT_Client_AddressableDevices(&own), "listing addressable devices");
  for (size_t i = 0; i < own.num_addressable_devices; ++i) {
    addressable_devices_.emplace_back(api_, own.addressable_devices[i]);
  }

  if (!addressable_devices_.empty()) {
    has_host_memory_ = probe_host_memory();
    can_create_uninitialized_ = probe_uninitialized();
  }
}

void Client::Destroy::operator()(PJRT_Client* client) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client;
  api->PJRT_Client_Destroy(&args);
}

// A plugin may have the function and still not support it, so the only way to know is to try.
bool Client::probe_host_memory() const {
  if (!plugin_->has_function(&PJRT_Api::PJRT_Buffer_OpaqueDeviceMemoryDataPointer)) return false;
  try {
    const int32_t value = 0x5eed;
    const Buffer buffer = buffer_from_host(&value, ElementType::kS32, {}, addressable_devices_.front());
    if (!buffer.is_on_cpu()) return false;
    buffer.ready_event().await();
    const void* address = buffer.unsafe_host_pointer();
    return address != nullptr && *static_cast<const int32_t*>(address) == value;
  } catch (const Error&) {
    return false;
  }
}

bool Client::probe_uninitialized() const {
  if (!plugin_->has_function(&PJRT_Api::PJRT_Client_CreateUninitializedBuffer)) return false;
  try {
    create_uninitialized_buffer(ElementType::kS32, {}, addressable_devices_.front());
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<LoadedExecutable> Client::compile(std::string_view module_text, std::string_view options) const {
  constexpr std::string_view kFormat = "mlir";
  TORCH_TPU_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(module_text.data());  // only read
  program.code_size = module_text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();

  TORCH_TPU_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = client_.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  check(api_, api_->PJRT_Client_Compile(&args), "compiling a program");
  return std::make_unique<LoadedExecutable>(shared_from_this(), args.executable);
}

std::unique_ptr<LoadedExecutable> Client::deserialize(std::string_view serialized) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client_.get();
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  check(api_, api_->PJRT_Executable_DeserializeAndLoad(&args), "loading a serialized program");
  return std::make_unique<LoadedExecutable>(shared_from_this(), args.loaded_executable);
}

Buffer Client::buffer_from_host(const void* data, ElementType type, std::span<const int64_t> dims, const Device& device,
                                HostBufferSemantics semantics, PJRT_Event** done) const {
  if (done == nullptr && semantics != HostBufferSemantics::kImmutableOnlyDuringCall) {
    throw std::invalid_argument("buffer_from_host: without a done event the data can only be used during the call");
  }
  TORCH_TPU_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client_.get();
  args.data = data;
  args.type = element_type_info(type).pjrt;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = to_pjrt(semantics);
  args.device = device.get();
  check(api_, api_->PJRT_Client_BufferFromHostBuffer(&args), "copying host data to a device");
  if (done != nullptr) {
    *done = args.done_with_host_buffer;
  } else {
    Event(api_, args.done_with_host_buffer).reset();
  }
  return Buffer(api_, args.buffer);
}

Buffer Client::create_uninitialized_buffer(ElementType type, std::span<const int64_t> dims,
                                           const Device& device) const {
  if (!plugin_->has_function(&PJRT_Api::PJRT_Client_CreateUninitializedBuffer)) {
    throw Error(PJRT_Error_Code_UNIMPLEMENTED, "creating an uninitialized buffer: the plugin lacks it [UNIMPLEMENTED]");
  }
  TORCH_TPU_PJRT_ARGS(PJRT_Client_CreateUninitializedBuffer_Args, args);
  args.client = client_.get();
  args.shape_dims = dims.data();
  args.shape_num_dims = dims.size();
  args.shape_element_type = element_type_info(type).pjrt;
  args.device = device.get();
  check(api_, api_->PJRT_Client_CreateUninitializedBuffer(&args), "creating an uninitialized buffer");
  return Buffer(api_, args.buffer);
}

}  // namespace torch_tpu::pjrt
