// Ops without a lowering run on the CPU: counted, warned about once each, or an error, as TORCH_TPU_FALLBACK says.
#include <ATen/ATen.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <mutex>
#include <set>

#include "aten/settings.h"
#include "runtime/log.h"
#include "runtime/metrics.h"

namespace torch_tpu::aten {
namespace {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::string name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  const FallbackPolicy policy = settings().fallback;
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy != FallbackPolicy::kError, "The operator '", name,
      "' has no lowering for the tpu device. TORCH_TPU_FALLBACK=warn runs such operators on the CPU.");
  runtime::metrics().count_fallback(name);
  if (policy == FallbackPolicy::kWarn) {
    static std::mutex mutex;
    static auto* const warned = new std::set<std::string>;
    std::lock_guard lock(mutex);
    if (warned->insert(name).second)
      TORCH_WARN("The operator '", name,
                 "' has no lowering for the tpu device and runs on the CPU, which is slow. "
                 "torch.tpu.metrics()['fallbacks'] counts such calls; TORCH_TPU_FALLBACK=error makes them errors.");
  }
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace torch_tpu::aten
