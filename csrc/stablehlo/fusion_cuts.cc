#include "stablehlo/fusion_cuts.h"

#include <algorithm>
#include <iterator>

#include "stablehlo/op_cost.h"

namespace torch_tpu::stablehlo {

bool FusionCuts::cuts_after(std::string_view name, std::span<const Value> operands, std::span<const Value> results) {
  const int own = fusible_work_of(name);
  if (own == 0) return false;
  std::vector<Op> kernel;
  for (const Value& v : operands) {
    const auto it = kernels_.find(v.id());
    if (it == kernels_.end()) continue;
    std::vector<Op> all;
    std::ranges::set_union(kernel, it->second, std::back_inserter(all), {}, &Op::result, &Op::result);
    kernel = std::move(all);
  }
  kernel.push_back({results.front().id(), own});
  int work = 0;
  for (const Op& op : kernel) work += op.work;
  if (work > limit_) return true;
  for (const Value& v : results) kernels_.emplace(v.id(), kernel);
  return false;
}

}  // namespace torch_tpu::stablehlo
