#include "aten/forwarded_kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "aten/op_entry.h"

namespace torch_tpu::aten {
namespace {

struct Forwarded final : c10::OperatorKernel {
  explicit Forwarded(c10::SafeKernelFunction k) : kernel(std::move(k)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    kernel.callBoxed(op, keys, stack);
  }
  c10::SafeKernelFunction kernel;
};

bool forward_kernel(torch::Library& library, c10::DispatchKey from, const std::string& name) {
  const size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!op || !op->hasKernelForDispatchKey(from)) return false;
  library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                 std::make_unique<Forwarded>(op->getComputedKernelForDispatchKey(from))));
  return true;
}

}  // namespace

void forward_kernels(torch::Library& library, c10::DispatchKey from, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!forward_kernel(library, from, name)) unknown_lowerings().emplace_back(name);  // as for lowerings
}

void forward_pointwise_kernels(torch::Library& library, c10::DispatchKey from,
                               std::initializer_list<const char*> names) {
  forward_kernels(library, from, names);
  for (const std::string name : names) {
    forward_kernel(library, from, name + "_");
    forward_kernel(library, from, name + ".out");
  }
}

}  // namespace torch_tpu::aten
