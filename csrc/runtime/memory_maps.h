// The kernel gives a process so many memory maps (vm.max_map_count, usually 65,530). A program of XLA's CPU plugin
// takes three for each kernel in it, and when there are no more its compiler ends the process.
#pragma once

#include <cstdint>

namespace torch_tpu::runtime {

// To be told of each program of `bytes` that was made. Past three quarters of the limit the programs that were not used
// for longest are dropped from memory.
void stay_below_map_limit(int64_t bytes);

}  // namespace torch_tpu::runtime
