// From calls to StableHLO: the call of a program of its own, or one of many in a trace.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program.h"

namespace torch_tpu::runtime {

// A call without its tensors: what lowering needs of it, kept with the program so that traces can lower it again.
class Recipe {
 public:
  Recipe(const Call& call, CallDescription description);
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  const Call& call() const { return call_; }
  const CallDescription& description() const { return description_; }

 private:
  std::deque<Storage> storages_;               // without buffers
  std::deque<std::vector<int64_t>> geometry_;  // what the call's sizes and strides point into
  Call call_;
  CallDescription description_;
};

// Where a call's program finds its arrays and runtime values.
class Environment {
 public:
  virtual ~Environment() = default;
  // The array of input `index` of the call (Program::inputs), the first time that the call needs it.
  virtual stablehlo::Value array(int index, const stablehlo::TensorType& type) = 0;
  // `count` words of the call's packed runtime values, from `first` on, as u32.
  virtual stablehlo::Value words(int first, int count) = 0;
};

struct EmittedCall {
  std::vector<stablehlo::Value> results;                 // the defined ones
  std::vector<std::pair<int, stablehlo::Value>> writes;  // tensor, new array
  stablehlo::Value fault;                                // a byte (see bounds.h); undefined: the call finds none
};

// Emits the call into `module` and fills what `program` says of inputs, runtime values, results and writes.
EmittedCall emit_call(const Recipe& recipe, const lowering::Target& target, stablehlo::Builder& module,
                      Environment& environment, Program& program);

// The module of a program that is this one call. Fills everything of `program` but `key` and `executable`.
std::string lower(const Recipe& recipe, const lowering::Target& target, Program& program);

}  // namespace torch_tpu::runtime
