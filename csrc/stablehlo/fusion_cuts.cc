#include "stablehlo/fusion_cuts.h"

#include <algorithm>
#include <iterator>

#include "stablehlo/op_cost.h"

namespace torch_tpu::stablehlo {

bool FusionCuts::cuts_after(std::string_view name, std::span<const Value> operands, std::span<const Value> results) {
  const int own = fusible_work_of(name);
  if (own == 0) return false;
  Kernel kernel;
  for (const Value& v : operands) {
    const auto it = kernels_.find(v.id());
    if (it == kernels_.end()) continue;
    std::vector<int> all;
    std::ranges::set_union(kernel.ops, it->second.ops, std::back_inserter(all));
    kernel.ops = std::move(all);
  }
  kernel.ops.push_back(results.front().id());
  work_.emplace(results.front().id(), own);
  for (const int op : kernel.ops) kernel.work += work_.at(op);
  if (kernel.work > limit_) return true;
  for (const Value& v : results) kernels_.emplace(v.id(), kernel);
  return false;
}

}  // namespace torch_tpu::stablehlo
