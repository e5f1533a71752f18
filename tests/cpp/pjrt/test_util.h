// What the PJRT tests share: plugins, one client with four virtual devices, small programs.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/executable.h"

namespace torch_tpu::pjrt::testing {

// The environment variable `name`, which the build's test driver sets to the plugin's file.
inline std::string path_from_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::filesystem::exists(value) ? value : "";
}

inline std::string cpu_plugin_path() {
  const std::string path = path_from_env("TORCH_TPU_TEST_CPU_PLUGIN");
  if (path.empty()) throw std::runtime_error("set TORCH_TPU_TEST_CPU_PLUGIN to the file of xla-cpu-pjrt's plugin");
  return path;
}

inline std::string libtpu_path() { return path_from_env("TORCH_TPU_TEST_LIBTPU"); }

// For EXPECT_PRED2.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr int kDevices = 4;

// One client for all tests of the process; never destroyed, like the runtime's.
inline const std::shared_ptr<Client>& cpu_client() {
  static auto& client = *new std::shared_ptr<Client>(
      Client::create(Plugin::load(cpu_plugin_path()), {{"cpu_device_count", int64_t{kDevices}}}));
  return client;
}

inline const Device& device(int index) { return cpu_client()->addressable_devices().at(index); }

inline std::string portable_options() {
  CompileOptions options;
  options.portable = true;
  return options.serialize();
}

inline Buffer upload(const std::vector<float>& values, std::vector<int64_t> dims, int device_index = 0) {
  return cpu_client()->buffer_from_host(values.data(), ElementType::kF32, dims, device(device_index));
}

inline std::vector<float> download(const Buffer& buffer) {
  size_t count = 1;
  for (int64_t dim : buffer.dims()) count *= static_cast<size_t>(dim);
  std::vector<float> values(count);
  buffer.copy_to_host(values.data(), values.size() * sizeof(float)).await();
  return values;
}

// Runs a program with one output.
inline Buffer run(const LoadedExecutable& program, std::vector<PJRT_Buffer*> args, int device_index = 0,
                  std::span<const int64_t> non_donatable = {}) {
  PJRT_Buffer* output[1];
  program.execute(args, output, {.device = device(device_index).get(), .non_donatable = non_donatable});
  return Buffer(cpu_client()->api(), output[0]);
}

inline constexpr const char* kAdd = R"(
module @add {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
})";

// The first argument's memory becomes the output's.
inline constexpr const char* kDonatingAdd = R"(
module @donating_add {
  func.func public @main(%a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
})";

// Long enough to be under way when execute returns.
inline constexpr const char* kCube = R"(
module @cube {
  func.func public @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0]
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %1 : tensor<512x512xf32>
  }
})";

// The output is small, but the run needs 200 TB in between, more than an address space has, so no machine tries.
inline constexpr const char* kHugeTemporary = R"(
module @huge {
  func.func public @main(%a: tensor<f32>) -> tensor<1xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<50000000000000xf32>
    %1 = "stablehlo.sort"(%0) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }) {dimension = 0 : i64} : (tensor<50000000000000xf32>) -> tensor<50000000000000xf32>
    %2 = stablehlo.slice %1 [0:1] : (tensor<50000000000000xf32>) -> tensor<1xf32>
    return %2 : tensor<1xf32>
  }
})";

}  // namespace torch_tpu::pjrt::testing
