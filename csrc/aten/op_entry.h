// What the bridge knows about one registered ATen overload: how its arguments enter the key, which of them are written,
// and which lowering serves it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lowering/registry.h"

namespace torch_tpu::aten {

// Whether the schema says that the argument, or what is returned, is written: "(a!)".
inline bool is_write(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }

enum class ArgumentKind : uint8_t {
  kTensor,      // Tensor, Tensor?
  kTensorList,  // Tensor[], Tensor?[]
  kScalar,      // Scalar, float: a runtime input
  kStructuralScalar,
  kScalarList,  // Scalar[], float[]: runtime inputs
  kStructuralScalarList,
  kRuntimeInt,
  kInt,
  kBool,
  kIntList,
  kBoolList,
  kString,
  kDtype,
  kDevice,
  kGenerator,
  kIgnored,  // layout, memory format, pin_memory: handled by the meta kernel
};

// How written memory may overlap inputs: exactly or not at all (as TensorIterator has it), not at all, not at all but
// for `self` (the scatter family), or in any way (fills, which also may write an element twice).
enum class OverlapRule : uint8_t { kExactOrNone, kNone, kNoneButSelf, kAny };

struct OpEntry {
  struct Argument {
    std::string name;
    ArgumentKind kind;
    bool is_float = false;     // float and float[]: Python ints arrive as doubles already
    bool has_default = false;  // a numeric default, which is baked into the program
    double default_value = 0;
    int returned_as = -1;  // >= 0: written, and the result of this index is what it gets
    bool is_out = false;   // an out argument: not seen by the lowering
  };
  uint32_t id = 0;
  std::string name;  // "aten::add_.Tensor"
  const lowering::Lowering* lowering = nullptr;
  const c10::FunctionSchema* schema = nullptr;
  std::optional<c10::OperatorHandle> own;         // nullopt for internal ops
  std::optional<c10::OperatorHandle> functional;  // whose meta kernel gives result types
  std::vector<Argument> arguments;
  std::vector<int> return_argument;   // per schema return: the argument that is returned, or -1 for a new tensor
  std::vector<bool> returns_integer;  // per schema return: an int and not a tensor (attention's max_q and max_k)
  bool writes_results = false;        // in-place and out forms
  bool returns_list = false;          // Tensor[]
  OverlapRule overlap = OverlapRule::kExactOrNone;
  bool is_foreach = false;  // no meta kernels: they would run one by one
  // Replaces arguments before the call is keyed (bool masks by index tensors). Returns true when it did the whole call
  // and left the results.
  bool (*prepare)(const OpEntry&, torch::jit::Stack*) = nullptr;
};

// An entry for `schema`, served by `lowering`. `functional` is the overload whose meta kernel types the results.
std::unique_ptr<OpEntry> make_entry(const lowering::Lowering& lowering, const c10::FunctionSchema& schema,
                                    std::optional<c10::OperatorHandle> own,
                                    std::optional<c10::OperatorHandle> functional);

// Runs the op on the stack: the arguments are replaced by the results.
void run_entry(const OpEntry& entry, torch::jit::Stack* stack);

// Lowerings whose names this PyTorch does not have.
std::vector<std::string>& unknown_lowerings();
// (lowering, overload) of each registered kernel: ("add.Tensor", "add_.Tensor").
std::vector<std::pair<std::string, std::string>>& registered_overloads();

// An entry of an op of this project's own, from its schema ("tpu.arange(int size, ...) -> Tensor").
const OpEntry& internal_entry(const char* schema);

// Result types as PyTorch's meta kernels give them, in order; undefined where there is no meta kernel.
struct MetaResult {
  bool known = false;
  bool defined = true;
  c10::ScalarType dtype{};
  std::vector<int64_t> sizes, strides;
};
std::vector<MetaResult> infer_results(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments);

}  // namespace torch_tpu::aten
