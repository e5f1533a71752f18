// Runs a StableHLO module, such as a training step that JAX exported, through torch_tpu's PJRT layer: what the plugin
// gives to a program that torch_tpu did not write.
//
//   run_stablehlo PLUGIN MODULE INPUTS FEEDBACK [OPTIONS]
//
// INPUTS has, for each argument, a line "TYPE DIM DIM ..." (TYPE as in MLIR) and the dense bytes. The first line on
// stdout is the seconds that compiling took, and XLA's count of the module's floating point operations and of the bytes
// that it reads and writes. Then each line on stdin runs the module once, and is answered with the seconds of the run
// and, where the last output is a f32 scalar, its value (else 0). The first FEEDBACK outputs are the next run's first
// arguments; the module may take those, and only those, as donations. OPTIONS is a file with serialized compile
// options of torch_tpu, whose way with memory comes with them; without it all is XLA's own, but for XNNPACK.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/executable.h"
#include "pjrt/plugin_memory.h"

namespace {

using namespace torch_tpu;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ElementType element_named(const std::string& name) {
  for (int i = 0; i < static_cast<int>(ElementType::kInvalid); ++i)
    if (name == element_type_info(static_cast<ElementType>(i)).mlir) return static_cast<ElementType>(i);
  throw std::runtime_error("no element type " + name);
}

std::vector<pjrt::Buffer> read_inputs(const pjrt::Client& client, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<pjrt::Buffer> inputs;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const ElementType type = element_named(name);
    std::vector<int64_t> dims;
    size_t bytes = byte_size(type);
    for (int64_t d; words >> d; bytes *= static_cast<size_t>(d)) dims.push_back(d);
    std::string data(bytes, '\0');
    if (!file.read(data.data(), static_cast<std::streamsize>(bytes))) throw std::runtime_error(path + " is cut off");
    inputs.push_back(client.buffer_from_host(data.data(), type, dims, client.addressable_devices()[0]));
  }
  return inputs;
}

std::string contents(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string default_options() {
  pjrt::CompileOptions options;
  // With XNNPACK, weights that are updated in place are read as they were before.
  options.portable = true;
  options.env_overrides["xla_cpu_use_xnnpack"] = false;
  return options.serialize();
}

void serve(const char* plugin_path, const char* module_path, const char* inputs_path, size_t feedback,
           const std::string& options, bool keep_blocks) {
  const auto plugin = pjrt::Plugin::load(plugin_path);
  const auto client = pjrt::Client::create(plugin, {{"cpu_device_count", int64_t{1}}});
  if (keep_blocks) pjrt::keep_blocks(*plugin);
  const auto start = Clock::now();
  const auto executable = client->compile(contents(module_path), options);
  const double compile_seconds = seconds_since(start);
  std::map<std::string, double> costs = executable->cost_analysis();
  std::cout << compile_seconds << ' ' << costs["flops"] << ' ' << costs["bytes accessed"] << std::endl;
  const bool has_value =
      executable->output_types().back() == ElementType::kF32 && executable->output_dims().back().empty();

  std::vector<pjrt::Buffer> arguments = read_inputs(*client, inputs_path);
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = Clock::now();
    std::vector<PJRT_Buffer*> handles, results(executable->num_outputs());
    for (const pjrt::Buffer& a : arguments) handles.push_back(a.get());
    executable->execute(handles, results, {.device = client->addressable_devices()[0].get()});
    std::vector<pjrt::Buffer> outputs;
    for (PJRT_Buffer* r : results) outputs.emplace_back(client->api(), r);
    float last = 0;
    if (has_value) outputs.back().copy_to_host(&last, sizeof last).await();
    for (pjrt::Buffer& o : outputs) o.ready_event().await();
    for (size_t i = 0; i < feedback; ++i) arguments[i] = std::move(outputs[i]);
    std::cout << seconds_since(begin) << ' ' << last << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6)
    return std::fprintf(stderr, "usage: %s PLUGIN MODULE INPUTS FEEDBACK [OPTIONS]\n", argv[0]), 2;
  try {
    const bool ours = argc > 5;
    serve(argv[1], argv[2], argv[3], std::stoul(argv[4]), ours ? contents(argv[5]) : default_options(), ours);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
