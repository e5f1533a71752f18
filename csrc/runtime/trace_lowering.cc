#include "runtime/trace_lowering.h"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "runtime/lower.h"
#include "runtime/session.h"
#include "stablehlo/shape.h"

namespace torch_tpu::runtime {
namespace {
using stablehlo::Builder;
using stablehlo::TensorType;
using StableValue = stablehlo::Value;

// XLA's CPU client runs a program of fewer flops on the calling thread and hands others to its pool, whose threads cost
// a waiting reader 100 us to wake; a run of its own costs 3.
constexpr double kInlineFlops = 1000;
constexpr size_t kMaxParts = 4;
// Some thirty ops: kernels of models are smaller, and what it takes to keep an array in between does not show.
constexpr int kFusionLimit = 256;

// One call of a trace: its arrays are values of the trace.
class StepEnvironment final : public Environment {
 public:
  StepEnvironment(const Trace& trace, const Trace::Step& step, const std::vector<StableValue>& values,
                  StableValue words)
      : trace_(trace), step_(step), values_(values), words_(words) {}

  StableValue array(int index, const TensorType& type) override {
    const int number = step_.operands_of(trace_)[static_cast<size_t>(index)];
    const StableValue value = values_.at(static_cast<size_t>(number));
    if (value.type() == type) return value;
    // A storage may see its array with other dims: the elements are the same, in the same order.
    return stablehlo::reshape(value, type.dims);
  }
  StableValue words(int first, int count) override {
    return stablehlo::slice(words_, {step_.first_word + first}, {step_.first_word + first + count});
  }

 private:
  const Trace& trace_;
  const Trace::Step& step_;
  const std::vector<StableValue>& values_;
  StableValue words_;
};

// Some calls of a trace, in order, as one module.
class PartLowering {
 public:
  // `earlier`: of whose values this part may read some.
  PartLowering(const Trace& trace, std::span<const size_t> steps, const PartLowering* earlier)
      : trace_(trace), steps_(steps), earlier_(earlier), values_(trace.values.size()), origin_(values_.size(), -1) {}

  TracePart lower(std::vector<int> outputs, const std::vector<bool>& donatable) {
    part_.outputs = std::move(outputs);
    if (Session::get().target().is_cpu()) module_.set_fusion_limit(kFusionLimit);
    add_parameters();
    for (const size_t i : steps_) {
      emit(i);
      flops_.push_back(module_.flops());
    }
    std::vector<StableValue> results;
    for (const int number : part_.outputs) results.push_back(values_[static_cast<size_t>(number)]);
    if (!donatable.empty()) donate(donatable);
    results.insert(results.end(), flags_.begin(), flags_.end());
    part_.text = module_.finish(results);
    return std::move(part_);
  }

  // Of the module up to and with each call.
  const std::vector<double>& flops() const { return flops_; }

 private:
  TensorType parameter_type(int number) const {
    const int input = trace_.values[static_cast<size_t>(number)].input;
    if (input < 0) return earlier_->values_[static_cast<size_t>(number)].type();
    const Program::Input& type = *trace_.inputs[static_cast<size_t>(input)].type;
    return {type.element, type.dims};
  }

  void add_parameters() {
    std::vector<bool> known(trace_.values.size(), false);
    for (const size_t i : steps_) {
      const Trace::Step& step = trace_.steps[i];
      for (const int number : step.operands_of(trace_)) {
        if (known[static_cast<size_t>(number)]) continue;
        known[static_cast<size_t>(number)] = true;
        origin_[static_cast<size_t>(number)] = static_cast<int>(part_.inputs.size());
        part_.inputs.push_back(number);
        values_[static_cast<size_t>(number)] = module_.parameter(parameter_type(number));
      }
      for (size_t k = 0; k < step.program->num_products(); ++k) known[static_cast<size_t>(step.first_value) + k] = true;
      part_.takes_words = part_.takes_words || step.program->packed_words > 0;
    }
    if (part_.takes_words) words_ = module_.parameter({ElementType::kU32, {static_cast<int64_t>(trace_.words.size())}});
  }

  // A program with a value that cannot fit fails when it runs, with all of its outputs. Op by op, only what depends on
  // that value is lost.
  void check_size(const TensorType& type) const {
    const double bytes = static_cast<double>(type.numel()) * static_cast<double>(byte_size(type.element));
    if (memory_ > 0 && bytes > static_cast<double>(memory_))
      throw std::runtime_error(to_string(type) + " is larger than the device's memory.");
  }

  void emit(size_t i) {
    const Trace::Step& step = trace_.steps[i];
    StepEnvironment environment(trace_, step, values_, words_);
    Program scratch;
    EmittedCall call = emit_call(*step.program->recipe, Session::get().target(), module_, environment, scratch);
    auto next = static_cast<size_t>(step.first_value);
    for (const StableValue& v : call.results) {
      if (v.defined()) check_size(v.type());
      values_.at(next++) = v;
    }
    for (const auto& [tensor, v] : call.writes) {
      // What is written in place may stay in the memory of the array that was there at first.
      for (size_t k = 0; k < step.program->inputs.size(); ++k) {
        if (step.program->inputs[k].tensor != tensor) continue;
        origin_[next] = origin_[static_cast<size_t>(step.operands_of(trace_)[k])];
      }
      values_.at(next++) = v;
    }
    if (!call.fault.defined()) return;
    flags_.push_back(call.fault);
    part_.flagged_steps.push_back(static_cast<int>(i));
  }

  // Pairs inputs that die with outputs of the same type: first with what replaces them in place, then with any.
  void donate(const std::vector<bool>& donatable) {
    std::vector<bool> taken(part_.inputs.size(), false), placed(part_.outputs.size(), false);
    const auto dies = [&](size_t parameter) {
      const int input = trace_.values[static_cast<size_t>(part_.inputs[parameter])].input;
      return donatable[static_cast<size_t>(input)] && !taken[parameter];
    };
    const auto try_alias = [&](size_t parameter, size_t output) {
      if (placed[output] || !dies(parameter)) return;
      if (values_[static_cast<size_t>(part_.outputs[output])].type() != parameter_type(part_.inputs[parameter])) return;
      module_.alias_parameter(static_cast<int>(parameter), static_cast<int>(output));
      taken[parameter] = placed[output] = true;
    };
    for (size_t k = 0; k < part_.outputs.size(); ++k) {
      const int origin = origin_[static_cast<size_t>(part_.outputs[k])];
      if (origin >= 0) try_alias(static_cast<size_t>(origin), k);
    }
    for (size_t parameter = 0; parameter < part_.inputs.size(); ++parameter)
      for (size_t k = 0; k < part_.outputs.size() && dies(parameter); ++k) try_alias(parameter, k);
  }

  const Trace& trace_;
  const std::span<const size_t> steps_;
  const PartLowering* const earlier_;
  const int64_t memory_ = Session::get().total_memory(0);  // bytes; 0 where it is not known
  Builder module_;
  StableValue words_;
  std::vector<StableValue> values_, flags_;
  std::vector<int> origin_;  // by value: the parameter whose memory it may stay in
  std::vector<double> flops_;
  TracePart part_;
};

// Calls that no output and no bounds flag depends on are left out.
std::vector<size_t> needed_steps(const Trace& trace, const std::vector<int>& outputs) {
  std::vector<bool> value_needed(trace.values.size(), false);
  for (const int number : outputs) value_needed[static_cast<size_t>(number)] = true;
  std::vector<size_t> steps;
  for (size_t i = trace.steps.size(); i-- > 0;) {
    const Trace::Step& step = trace.steps[i];
    bool needed = step.program->has_bounds_flag;
    for (size_t k = 0; k < step.program->num_products(); ++k)
      needed = needed || value_needed[static_cast<size_t>(step.first_value) + k];
    if (!needed) continue;
    steps.push_back(i);
    for (const int number : step.operands_of(trace)) value_needed[static_cast<size_t>(number)] = true;
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// Sizes of the parts that each run on the calling thread; empty where that takes many. `flops`: up to and with each
// call.
std::vector<size_t> part_sizes(const std::vector<double>& flops) {
  if (flops.empty() || flops.back() < kInlineFlops || flops.back() >= kMaxParts * kInlineFlops) return {};
  std::vector<size_t> sizes;
  size_t first = 0;
  double before = 0;
  for (size_t i = 0; i < flops.size(); ++i) {
    if (flops[i] - before < kInlineFlops) continue;
    if (i == first) return {};
    sizes.push_back(i - first);
    first = i;
    before = flops[i - 1];
    if (flops[i] - before >= kInlineFlops) return {};
  }
  sizes.push_back(flops.size() - first);
  if (sizes.size() > kMaxParts) return {};
  return sizes;
}

}  // namespace

std::vector<TracePart> lower_trace(const Trace& trace, const std::vector<bool>& donatable,
                                   const std::vector<int>& outputs) {
  const std::vector<size_t> steps = needed_steps(trace, outputs);
  PartLowering whole(trace, steps, nullptr);
  std::vector<TracePart> parts;
  parts.push_back(whole.lower(outputs, donatable));
  const std::vector<size_t> sizes =
      Session::get().target().is_cpu() ? part_sizes(whole.flops()) : std::vector<size_t>();
  if (sizes.empty()) return parts;
  parts.clear();
  std::vector<bool> is_output(trace.values.size(), false);
  for (const int number : outputs) is_output[static_cast<size_t>(number)] = true;
  size_t first = 0;
  for (const size_t size : sizes) {
    const auto mine = std::span(steps).subspan(first, size);
    const auto later = std::span(steps).subspan(first + size);
    std::vector<bool> leaves = is_output;
    for (const size_t i : later)
      for (const int number : trace.steps[i].operands_of(trace)) leaves[static_cast<size_t>(number)] = true;
    std::vector<int> made;
    for (const size_t i : mine) {
      const Trace::Step& step = trace.steps[i];
      for (size_t k = 0; k < step.program->num_products(); ++k)
        if (const int number = step.first_value + static_cast<int>(k); leaves[static_cast<size_t>(number)])
          made.push_back(number);
    }
    parts.push_back(PartLowering(trace, mine, &whole).lower(std::move(made), {}));
    first += size;
  }
  return parts;
}

}  // namespace torch_tpu::runtime
