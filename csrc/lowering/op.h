// One call of an ATen op, as a lowering sees it: its arguments by schema name, the types that its results must have,
// the builder to emit into, and the target.
//
// What a lowering can read is either part of the program's key (types, dims, ints, bools, strings, structural scalars)
// or a runtime input (tensors, other scalars). The value of a runtime scalar cannot be read here, only used as a Value:
// so no lowering can bake a value that the key does not hold.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"
#include "stablehlo/shape.h"
#include "stablehlo/structured.h"

namespace torch_tpu::lowering {

using stablehlo::Builder;
using stablehlo::Dims;
using stablehlo::TensorType;
using stablehlo::Value;
using Results = std::vector<Value>;

struct Target {
  enum class Platform { kCpu, kTpu } platform = Platform::kCpu;
  bool is_cpu() const { return platform == Platform::kCpu; }
  bool is_tpu() const { return platform == Platform::kTpu; }
};

// Process-wide settings that change what programs compute. Part of every key.
struct Numerics {
  stablehlo::DotPrecision matmul_precision = stablehlo::DotPrecision::kHighest;
  bool allow_excess_precision = false;
  ElementType default_float = ElementType::kF32;  // torch.get_default_dtype()
};

// A call that the lowering cannot serve (a dtype or form the target lacks). Becomes NotImplementedError, which names
// the op and the reason.
class Unsupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A user's error that only the lowering can see. Become RuntimeError, IndexError, ValueError.
class CallError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
class CallIndexError : public CallError {
  using CallError::CallError;
};
class CallValueError : public CallError {
  using CallError::CallError;
};

struct TensorArgument {
  TensorType type;
  bool wrapped_number = false;                // a Python number in the place of a tensor
  bool contiguous = false;                    // as Tensor::is_contiguous: some kernels' conventions depend on it
  std::function<Value()> load;                // emits the read, at most once a call of the lowering
  std::function<Value(ElementType)> load_as;  // for host scalars: the number in the type asked for
};

struct ScalarArgument {
  ElementType kind = ElementType::kF64;    // kPred, kS64, kF64 or kC128: the Python type
  bool is_constant = false;                // structural, or equal to the schema's default
  std::complex<double> constant;           // valid if is_constant
  int64_t integer_constant = 0;            // valid if is_constant and kind is kPred or kS64
  std::function<Value(ElementType)> load;  // the number in the type asked for, as ATen's Scalar::to
};

using TensorListArgument = std::vector<std::optional<TensorArgument>>;

struct Argument {
  std::variant<std::monostate, TensorArgument, TensorListArgument, ScalarArgument, std::vector<ScalarArgument>, int64_t,
               bool, std::string, std::vector<int64_t>, std::vector<bool>, ElementType>
      value;
  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
};

// What a program can find wrong with the values that it is given. The numbers are what it returns.
enum class Fault : uint8_t {
  kIndexOutOfRange = 1,  // IndexError
  kDivisionByZero,       // RuntimeError, as integer division raises it on the CPU
  kNotFinite,            // RuntimeError
  kNoConvergence,        // LinAlgError
  kSingular,             // LinAlgError
  kBadLengths,           // RuntimeError
};

// What all ops of one program share.
struct ProgramContext {
  virtual ~ProgramContext() = default;
  Builder* builder = nullptr;
  Target target;
  Numerics numerics;
  // ui64[2] Philox state (key, counter) of the call's generator; the runtime advances the counter by at least
  // `blocks` 128-bit blocks after each run.
  virtual Value random_state(int64_t blocks) = 0;
  // Registers a rank-0 bool that is true when the call's values have a fault. The runtime raises the error: at once in
  // debug mode, else at the next synchronization.
  virtual void report(Fault fault, Value flag) = 0;
  void report_out_of_bounds(Value flag) { report(Fault::kIndexOutOfRange, flag); }
};

class Op {
 public:
  Op(ProgramContext& context, std::string name, std::map<std::string, Argument, std::less<>> arguments,
     std::vector<TensorType> result_types)
      : context_(&context),
        name_(std::move(name)),
        arguments_(std::move(arguments)),
        results_(std::move(result_types)) {}

  Builder& builder() const { return *context_->builder; }
  const Target& target() const { return context_->target; }
  const Numerics& numerics() const { return context_->numerics; }
  ProgramContext& context() const { return *context_; }
  const std::string& name() const { return name_; }

  // --- arguments; a wrong name or kind is a defect and throws TypeError
  bool has(std::string_view arg) const;                // present in the call and not None
  const TensorType& type(std::string_view arg) const;  // of a tensor
  ElementType element(std::string_view arg) const { return type(arg).element; }
  const Dims& dims(std::string_view arg) const { return type(arg).dims; }
  int64_t rank(std::string_view arg) const { return type(arg).rank(); }
  bool is_tensor(std::string_view arg) const;
  bool is_wrapped_number(std::string_view arg) const;
  bool is_contiguous(std::string_view arg) const;
  Value tensor(std::string_view arg) const;                  // in its own type
  Value tensor(std::string_view arg, ElementType as) const;  // converted as ATen's .to(dtype)
  std::optional<Value> optional_tensor(std::string_view arg) const;
  std::optional<Value> optional_tensor(std::string_view arg, ElementType as) const;
  size_t list_size(std::string_view arg) const;  // Tensor[] or Scalar[]
  const TensorType& type(std::string_view arg, size_t i) const;
  std::vector<Value> tensors(std::string_view arg) const;  // Tensor[] without None
  std::vector<std::optional<Value>> optional_tensors(std::string_view arg) const;

  // A Scalar, float or runtime int as a rank-0 value of the type asked for.
  Value scalar(std::string_view arg, ElementType as) const;
  ElementType scalar_kind(std::string_view arg) const;  // kPred, kS64, kF64, kC128
  bool scalar_is_constant(std::string_view arg) const;
  bool scalar_equals(std::string_view arg, double value) const;  // false for runtime scalars
  double constant_real(std::string_view arg) const;              // structural Scalar or float only
  int64_t constant_integer(std::string_view arg) const;
  std::complex<double> constant_complex(std::string_view arg) const;

  int64_t integer(std::string_view arg) const;  // int, SymInt
  int64_t integer_or(std::string_view arg, int64_t otherwise) const;
  bool boolean(std::string_view arg) const;
  const std::string& string(std::string_view arg) const;
  const Dims& integers(std::string_view arg) const;  // int[]; a single int reads as a list of one
  const std::vector<bool>& booleans(std::string_view arg) const;
  std::optional<ElementType> dtype(std::string_view arg) const;  // ScalarType?

  // --- results
  size_t num_results() const { return results_.size(); }
  // Whether PyTorch's meta kernel has said what result i is. Where it has not, the returned value's type decides.
  bool result_known(size_t i = 0) const;
  const TensorType& result_type(size_t i = 0) const;
  ElementType result_element(size_t i = 0) const { return result_type(i).element; }
  const Dims& result_dims(size_t i = 0) const { return result_type(i).dims; }

  // Hidden mutation (running statistics, optimizer state): argument `arg` (or element i of a list) becomes `value`,
  // through its view geometry, converted to its dtype. A trailing `_`/`.out` form needs no call of this.
  void write(std::string_view arg, Value value) { writes_.push_back({std::string(arg), -1, value}); }
  void write(std::string_view arg, size_t i, Value value) {
    writes_.push_back({std::string(arg), static_cast<int>(i), value});
  }
  struct Write {
    std::string argument;
    int index;  // -1 unless a list
    Value value;
  };
  const std::vector<Write>& writes() const { return writes_; }

  // Random bits of the call's generator, ui32 or ui64.
  Value random_bits(ElementType bits, const Dims& dims) const;

  // The same context with other arguments: for lowerings that are built from others, and for foreach.
  Op with(std::string name, std::map<std::string, Argument, std::less<>> arguments,
          std::vector<TensorType> result_types) const {
    return Op(*context_, std::move(name), std::move(arguments), std::move(result_types));
  }
  const std::map<std::string, Argument, std::less<>>& arguments() const { return arguments_; }

 private:
  const Argument& argument(std::string_view arg) const;
  template <typename T>
  const T& get(std::string_view arg, const char* kind) const;

  ProgramContext* context_;
  std::string name_;
  std::map<std::string, Argument, std::less<>> arguments_;
  std::vector<TensorType> results_;
  std::vector<Write> writes_;
};

}  // namespace torch_tpu::lowering
