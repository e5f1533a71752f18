// What is needed to build the program of a call that is not cached. Made on a miss only.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "lowering/registry.h"
#include "runtime/call.h"

namespace torch_tpu::runtime {

struct ScalarDescription {
  ScalarValue value;  // the kind always; the number where `constant`
  bool constant = false;
  int index = -1;  // into Call::scalars where not constant
};
struct TensorIndex {
  int index = -1;  // into Call::tensors
};

struct ArgumentDescription {
  std::string name;
  std::variant<std::monostate, TensorIndex, std::vector<int>, ScalarDescription, std::vector<ScalarDescription>,
               int64_t, bool, std::string, std::vector<int64_t>, std::vector<bool>, ElementType>
      value;  // vector<int>: tensor list, -1 for None
};

// Result i of the lowering: a new tensor, or the new contents of a tensor argument.
struct ResultDescription {
  stablehlo::TensorType type;  // element kInvalid: whatever the lowering returns
  stablehlo::Dims strides;     // of a new tensor; empty with a known type of rank > 0 means row-major
  int written_tensor = -1;     // >= 0: written to this tensor argument instead
};

struct CallDescription {
  std::string op;  // for messages: "aten::add.Tensor"
  const lowering::Lowering* lowering = nullptr;
  std::vector<ArgumentDescription> arguments;
  std::vector<stablehlo::TensorType> lowering_types;  // what Op::result_type(i) says; kInvalid where unknown
  std::vector<ResultDescription> results;  // may be shorter than what the lowering returns: the rest are unknown types
  std::vector<bool> irregular;             // per tensor: which plan (see access_plan.h)
  lowering::Numerics numerics;
};

}  // namespace torch_tpu::runtime
