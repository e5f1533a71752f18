// Builds one StableHLO module as MLIR text. Ops are free functions over Value (elementwise.h, shape.h,
// structured.h); each infers its result type and appends one line to the region that is open.
// Equal pure ops in one region are emitted once, so that equal computations print equal text.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stablehlo/types.h"

namespace torch_tpu::stablehlo {

class Builder;
class FusionCuts;

// A handle to a value of one builder. Copyable; valid as long as the builder.
class Value {
 public:
  Value() = default;
  Value(Builder* builder, int id) : builder_(builder), id_(id) {}

  Builder& builder() const { return *builder_; }
  int id() const { return id_; }
  bool defined() const { return builder_ != nullptr; }
  const TensorType& type() const;
  ElementType element() const { return type().element; }
  const Dims& dims() const { return type().dims; }
  int64_t dim(int i) const { return dims()[static_cast<size_t>(i)]; }
  int rank() const { return type().rank(); }
  int64_t numel() const { return type().numel(); }

 private:
  Builder* builder_ = nullptr;
  int id_ = -1;
};

// Thrown when an op is asked for with types that it does not take: a defect of a lowering, not of a user's call.
class TypeError : public std::logic_error {
  using std::logic_error::logic_error;
};

// A region's body: receives the block arguments, returns the values of the terminator.
using RegionBody = std::function<std::vector<Value>(std::span<const Value>)>;

struct Region {
  std::vector<TensorType> arguments;
  RegionBody body;
};

class Builder {
 public:
  Builder();
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Appends a parameter of @main. `aliased_output` >= 0 marks it as donatable to that result.
  Value parameter(const TensorType& type);
  void alias_parameter(int parameter, int output);
  int num_parameters() const { return static_cast<int>(parameters_.size()); }

  // Appends `"name"(operands) {attributes} : (...) -> results`. `attributes` is the text between the braces.
  std::vector<Value> emit(std::string_view name, std::span<const Value> operands, std::string_view attributes,
                          std::span<const TensorType> results, std::span<const Region> regions = {});
  // The same for ops whose result types are known only once their regions are built: `results` is read after that.
  std::vector<Value> emit_with_regions(std::string_view name, std::span<const Value> operands,
                                       std::string_view attributes, const std::vector<TensorType>& results,
                                       std::span<const Region> regions);
  Value emit1(std::string_view name, std::initializer_list<Value> operands, std::string_view attributes,
              TensorType result);

  // The finished module, with @main returning `results`.
  std::string finish(std::span<const Value> results);

  // Large reductions in several steps (reduce.cc), as suits the CPU compiler.
  void set_reduce_in_steps(bool on) { reduce_in_steps_ = on; }
  bool reduce_in_steps() const { return reduce_in_steps_; }

  // Cuts chains of ops that could become one kernel (fusion_cuts.h), from here on and outside of regions.
  void set_fusion_limit(int work);

  const TensorType& type_of(int id) const { return types_[static_cast<size_t>(id)]; }
  // Number of ops emitted so far, for limits and statistics.
  int num_ops() const { return num_ops_; }
  // flops_of() all ops emitted so far.
  double flops() const { return flops_; }

 private:
  struct Scope {
    std::string text;
    std::unordered_map<std::string, int> seen;  // op text without result names -> first result id
    int indent = 2;
  };

  int new_value(const TensorType& type);
  std::vector<Value> cut_off(std::span<const Value> values, std::span<const TensorType> types);
  std::string region_text(const Region& region);

  std::deque<TensorType> types_;
  std::vector<int> parameters_;
  std::vector<int> parameter_alias_;
  std::vector<Scope> scopes_;
  int num_ops_ = 0;
  double flops_ = 0;
  bool reduce_in_steps_ = false;
  std::unique_ptr<FusionCuts> fusion_cuts_;
  std::string functions_;                                    // besides @main
  std::unordered_map<std::string, std::string> identities_;  // by type: the function that returns its arguments
};

inline const TensorType& Value::type() const { return builder_->type_of(id_); }

// Attribute text helpers.
std::string i64_array(std::span<const int64_t> values);
inline std::string i64_array(std::initializer_list<int64_t> values) {
  return i64_array(std::span<const int64_t>(values.begin(), values.size()));
}
std::string bracket_list(std::span<const int64_t> values);

}  // namespace torch_tpu::stablehlo
