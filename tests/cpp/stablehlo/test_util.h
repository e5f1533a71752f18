// Compiling and running what a Builder made, on the CPU plugin.
#pragma once

#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "pjrt/test_util.h"
#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo::testing {

template <typename T>
pjrt::Buffer upload(ElementType type, const Dims& dims, const std::vector<T>& values) {
  return pjrt::testing::cpu_client()->buffer_from_host(values.data(), type, dims, pjrt::testing::device(0));
}

template <typename T>
std::vector<T> download(const pjrt::Buffer& buffer) {
  size_t count = 1;
  for (int64_t d : buffer.dims()) count *= static_cast<size_t>(d);
  EXPECT_EQ(byte_size(buffer.element_type()), sizeof(T));
  std::vector<T> values(count);
  buffer.copy_to_host(values.data(), count * sizeof(T)).await();
  return values;
}

// Compiles the module and checks that the plugin sees the result types that the builder inferred. A text that does not
// parse, or types that do not verify, throw.
inline std::unique_ptr<pjrt::LoadedExecutable> compile(Builder& b, std::span<const Value> results) {
  const std::string text = b.finish(results);
  SCOPED_TRACE(text);
  auto program = pjrt::testing::cpu_client()->compile(text, pjrt::testing::portable_options());
  const auto types = program->output_types();
  const auto dims = program->output_dims();
  EXPECT_EQ(types.size(), results.size());
  for (size_t i = 0; i < results.size() && i < types.size(); ++i) {
    EXPECT_EQ(types[i], results[i].element()) << "result " << i;
    EXPECT_EQ(dims[i], results[i].dims()) << "result " << i;
  }
  return program;
}

inline std::vector<pjrt::Buffer> run(Builder& b, std::initializer_list<Value> results,
                                     const std::vector<const pjrt::Buffer*>& arguments = {}) {
  auto program = compile(b, std::span<const Value>(results.begin(), results.size()));
  std::vector<PJRT_Buffer*> args, outputs(results.size());
  for (const pjrt::Buffer* a : arguments) args.push_back(a->get());
  program->execute(args, outputs, {.device = pjrt::testing::device(0).get()});
  std::vector<pjrt::Buffer> buffers;
  for (PJRT_Buffer* o : outputs) buffers.emplace_back(pjrt::testing::cpu_client()->api(), o);
  return buffers;
}

// One result of a module.
template <typename T>
std::vector<T> values(Builder& b, Value result, const std::vector<const pjrt::Buffer*>& arguments = {}) {
  return download<T>(run(b, {result}, arguments)[0]);
}

}  // namespace torch_tpu::stablehlo::testing
