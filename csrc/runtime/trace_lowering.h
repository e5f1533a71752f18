// The StableHLO of a trace.
#pragma once

#include <vector>

#include "runtime/trace_program.h"

namespace torch_tpu::runtime {

// The programs that make the values `outputs`, in the order in which they run: one, or a few where the plugin runs
// small programs sooner. `donatable` is by input. Throws what the calls' lowerings throw.
std::vector<TracePart> lower_trace(const Trace& trace, const std::vector<bool>& donatable,
                                   const std::vector<int>& outputs);

}  // namespace torch_tpu::runtime
