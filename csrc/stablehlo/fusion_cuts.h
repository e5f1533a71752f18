// Where chains of ops that XLA would fuse are cut, so that compiling takes time in proportion to them.
//
// XLA repeats what makes a value in every kernel that reads it, where that is cheap, and simplifies long chains over
// and over: a fused loop of 256 gelus takes half a minute to compile, and a second when it is cut every few dozen ops.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo {

class FusionCuts {
 public:
  // `limit`: of fusible_work_of() in what could be one kernel.
  explicit FusionCuts(int limit) : limit_(limit) {}

  // Takes note of an op. True: its results are to be cut off from what follows.
  bool cuts_after(std::string_view name, std::span<const Value> operands, std::span<const Value> results);

 private:
  struct Op {
    int result;  // the first one
    int work;
  };

  const int limit_;
  // By value: all that could be in the kernel that makes it, in order, each op once however often it is used.
  std::unordered_map<int, std::vector<Op>> kernels_;
};

}  // namespace torch_tpu::stablehlo
