#include "runtime/trace_program.h"

#include <algorithm>
#include <chrono>

#include "runtime/executor.h"
#include "runtime/log.h"
#include "runtime/lower.h"
#include "runtime/metrics.h"
#include "runtime/module_record.h"
#include "runtime/program_cache.h"
#include "runtime/session.h"
#include "stablehlo/shape.h"

namespace torch_tpu::runtime {
namespace {
using stablehlo::Builder;
using stablehlo::TensorType;
using StableValue = stablehlo::Value;

size_t num_products(const Program& p) {
  size_t n = p.writes.size();
  for (const Program::Result& r : p.results) n += r.defined;
  return n;
}

// One call of a trace: its arrays are values of the trace.
class StepEnvironment final : public Environment {
 public:
  StepEnvironment(const Trace& trace, const Trace::Step& step, const std::vector<StableValue>& values,
                  StableValue words)
      : trace_(trace), step_(step), values_(values), words_(words) {}

  StableValue array(int index, const TensorType& type) override {
    const int number = trace_.operands.at(static_cast<size_t>(step_.first_operand + index));
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

class TraceLowering {
 public:
  TraceLowering(const Trace& trace, const std::vector<bool>& donatable, TraceProgram& program)
      : trace_(trace), donatable_(donatable), program_(program) {}

  std::string lower() {
    find_needed();
    values_.resize(trace_.values.size());
    origin_.assign(trace_.values.size(), -1);
    for (size_t i = 0; i < trace_.values.size(); ++i) {
      const int input = trace_.values[i].input;
      if (input < 0) continue;
      const Program::Input& type = *trace_.inputs[static_cast<size_t>(input)].type;
      values_[i] = module_.parameter({type.element, type.dims});
      origin_[i] = input;
    }
    if (!trace_.words.empty())
      words_ = module_.parameter({ElementType::kU32, {static_cast<int64_t>(trace_.words.size())}});
    for (size_t i = 0; i < trace_.steps.size(); ++i)
      if (needed_[i]) emit(i);
    std::vector<StableValue> outputs;
    for (const int number : program_.outputs) outputs.push_back(values_[static_cast<size_t>(number)]);
    donate();
    outputs.insert(outputs.end(), flags_.begin(), flags_.end());
    return module_.finish(outputs);
  }

 private:
  // Calls that no output and no bounds flag depends on are left out.
  void find_needed() {
    std::vector<bool> value_needed(trace_.values.size(), false);
    for (const int number : program_.outputs) value_needed[static_cast<size_t>(number)] = true;
    needed_.assign(trace_.steps.size(), false);
    for (size_t i = trace_.steps.size(); i-- > 0;) {
      const Trace::Step& step = trace_.steps[i];
      bool needed = step.program->has_bounds_flag;
      for (size_t k = 0; k < num_products(*step.program); ++k)
        needed = needed || value_needed[static_cast<size_t>(step.first_value) + k];
      needed_[i] = needed;
      if (!needed) continue;
      for (size_t k = 0; k < step.program->inputs.size(); ++k)
        value_needed[static_cast<size_t>(trace_.operands[static_cast<size_t>(step.first_operand) + k])] = true;
    }
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
        const int operand = trace_.operands[static_cast<size_t>(step.first_operand) + k];
        origin_[next] = origin_[static_cast<size_t>(operand)];
      }
      values_.at(next++) = v;
    }
    if (!call.fault.defined()) return;
    flags_.push_back(call.fault);
    program_.flagged_steps.push_back(static_cast<int>(i));
  }

  // Pairs inputs that die with outputs of the same type: first with what replaces them in place, then with any.
  void donate() {
    std::vector<bool> taken(trace_.inputs.size(), false), placed(program_.outputs.size(), false);
    const auto type_of = [&](size_t input) {
      const Program::Input& type = *trace_.inputs[input].type;
      return TensorType{type.element, type.dims};
    };
    const auto try_alias = [&](size_t input, size_t output) {
      if (taken[input] || placed[output] || !donatable_[input]) return;
      if (values_[static_cast<size_t>(program_.outputs[output])].type() != type_of(input)) return;
      module_.alias_parameter(static_cast<int>(input), static_cast<int>(output));
      taken[input] = placed[output] = true;
    };
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const int origin = origin_[static_cast<size_t>(program_.outputs[k])];
      if (origin >= 0) try_alias(static_cast<size_t>(origin), k);
    }
    for (size_t input = 0; input < trace_.inputs.size(); ++input)
      for (size_t k = 0; k < program_.outputs.size() && donatable_[input] && !taken[input]; ++k) try_alias(input, k);
  }

  const Trace& trace_;
  const std::vector<bool>& donatable_;
  TraceProgram& program_;
  const int64_t memory_ = Session::get().total_memory(0);  // bytes; 0 where it is not known
  Builder module_;
  StableValue words_;
  std::vector<bool> needed_;
  std::vector<StableValue> values_, flags_;
  std::vector<int> origin_;  // by value: the input whose memory it may stay in
};

// Op by op, each with its own program. Nothing is donated; what depends on an op that fails has its error.
class Replay {
 public:
  // `wait`: for each op, so that a failure is found at the op that it is of, and not at one that reads its result.
  Replay(Trace& trace, int device, bool wait)
      : trace_(trace), device_(device), wait_(wait), values_(trace.values.size()) {}

  TraceResults run(const TraceProgram& program) {
    for (size_t i = 0; i < trace_.steps.size(); ++i) {
      std::exception_ptr failure = operand_failure(trace_.steps[i]);
      if (!failure) {
        try {
          run_step(i);
          continue;
        } catch (const std::exception&) {
          failure = std::current_exception();
        }
      }
      for (size_t k = 0; k < num_products(*trace_.steps[i].program); ++k)
        values_[static_cast<size_t>(trace_.steps[i].first_value) + k].failure = failure;
    }
    for (const int number : program.outputs) {
      Value& value = values_[static_cast<size_t>(number)];
      results_.outputs.push_back(std::move(value.buffer));
      results_.failures.push_back(value.failure);
    }
    return std::move(results_);
  }

 private:
  struct Value {
    pjrt::Buffer buffer;
    std::exception_ptr failure;
  };

  size_t operand(const Trace::Step& step, size_t k) const {
    return static_cast<size_t>(trace_.operands[static_cast<size_t>(step.first_operand) + k]);
  }

  std::exception_ptr operand_failure(const Trace::Step& step) const {
    for (size_t k = 0; k < step.program->inputs.size(); ++k)
      if (const auto& failure = values_[operand(step, k)].failure) return failure;
    return nullptr;
  }

  void run_step(size_t i) {
    const Trace::Step& step = trace_.steps[i];
    const Program& p = *step.program;
    const PJRT_Api* api = Session::get().client().api();
    std::vector<PJRT_Buffer*> args(static_cast<size_t>(p.num_parameters));
    std::vector<int64_t> keep;
    BufferRef words;
    if (p.packed_parameter >= 0) {
      words = upload_packed({trace_.words.data() + step.first_word, static_cast<size_t>(p.packed_words)}, device_);
      args[static_cast<size_t>(p.packed_parameter)] = words->get();
    }
    for (size_t k = 0; k < p.inputs.size(); ++k) {
      const size_t number = operand(step, k);
      const int input = trace_.values[number].input;
      args[static_cast<size_t>(p.inputs[k].parameter)] =
          input >= 0 ? trace_.inputs[static_cast<size_t>(input)].buffer->get() : values_[number].buffer.get();
      if (p.inputs[k].output >= 0) keep.push_back(p.inputs[k].parameter);
    }
    std::vector<PJRT_Buffer*> outputs(static_cast<size_t>(p.num_outputs));
    const TraceSummary::Op op{step.program, step.line};
    const auto origin = std::make_shared<const TraceSummary>(TraceSummary{1, op, op});
    const pjrt::LoadedExecutable* executable = nullptr;
    with_origin(origin.get(), [&] { executable = &p.executable(); });
    try {
      launch(*executable, origin, args, keep, device_, outputs);
    } catch (const FailedRun&) {
      for (PJRT_Buffer* b : outputs) pjrt::Buffer(api, b).reset();
      throw;
    }
    std::vector<pjrt::Buffer> made;
    for (PJRT_Buffer* b : outputs) made.emplace_back(api, b);
    if (wait_ && !made.empty()) with_origin(origin.get(), [&] { made.front().ready_event().await(); });
    size_t next = 0;
    for (; next < num_products(p); ++next)
      values_[static_cast<size_t>(step.first_value) + next].buffer = std::move(made[next]);
    if (p.has_bounds_flag)
      results_.flags.emplace_back(static_cast<int>(i), BufferRef(new DeviceBuffer(std::move(made[next]), 1, device_)));
  }

  Trace& trace_;
  const int device_;
  const bool wait_;
  std::vector<Value> values_;
  TraceResults results_;
};

}  // namespace

std::string Trace::name() const {
  if (steps.size() == 1) return steps[0].program->op;
  return "a fused program of " + std::to_string(steps.size()) + " ops (" + steps.front().program->op + " to " +
         steps.back().program->op + ")";
}

std::shared_ptr<const TraceSummary> Trace::summary() const {
  const auto op = [](const Step& s) { return TraceSummary::Op{s.program, s.line}; };
  return std::make_shared<const TraceSummary>(TraceSummary{steps.size(), op(steps.front()), op(steps.back())});
}

std::string TraceSummary::describe() const {
  const auto text = [](const Op& op) { return op.program->op + runtime::describe(op.line); };
  if (ops == 1) return text(first);
  return "one of " + std::to_string(ops) + " fused ops, from " + text(first) + " to " + text(last);
}

void compile_trace(const Trace& trace, const std::vector<bool>& donatable, TraceProgram& program) {
  TraceProgram::State state = TraceProgram::State::kReady;
  try {
    const auto start = std::chrono::steady_clock::now();
    const std::string text = TraceLowering(trace, donatable, program).lower();
    metrics().lowering_nanoseconds += (std::chrono::steady_clock::now() - start).count();
    record_module(trace.name(), text);
    if (log_enabled("compile", LogLevel::kInfo)) log("compile", LogLevel::kInfo, trace.name());
    CompiledProgram compiled = Session::get().compile(text, trace.steps[0].program->allow_excess_precision);
    program.executable = std::move(compiled.executable);
    program.executable_bytes = compiled.bytes;
  } catch (const std::exception& e) {
    log("compile", LogLevel::kWarn,
        "could not compile " + trace.summary()->describe() + "; its ops run one by one. " + std::string(e.what()));
    state = TraceProgram::State::kReplay;
  }
  program.state.store(state, std::memory_order_release);
}

TraceResults run_trace(Trace& trace, const TraceProgram& program, int device) {
  if (program.state.load(std::memory_order_acquire) == TraceProgram::State::kReplay)
    return Replay(trace, device, false).run(program);
  std::vector<PJRT_Buffer*> outputs(program.outputs.size() + program.flagged_steps.size());
  const PJRT_Api* api = Session::get().client().api();
  TraceResults results;
  results.origin = trace.summary();
  try {
    std::vector<PJRT_Buffer*> args;
    args.reserve(trace.inputs.size() + 1);
    for (const Trace::Input& in : trace.inputs) args.push_back(in.buffer->get());
    BufferRef words;
    if (!trace.words.empty()) {
      words = upload_packed(trace.words, device);
      args.push_back(words->get());
    }
    launch(*program.executable, results.origin, args, {}, device, outputs);
  } catch (const FailedRun&) {
    for (PJRT_Buffer* b : outputs) pjrt::Buffer(api, b).reset();
    throw;
  } catch (const std::exception& e) {  // nothing was issued; an input that failed is one reason
    log("execute", LogLevel::kInfo, std::string("op by op: ") + e.what());
    return Replay(trace, device, true).run(program);
  }
  results.failures.resize(program.outputs.size());
  size_t next = 0;
  for (; next < program.outputs.size(); ++next) results.outputs.emplace_back(api, outputs[next]);
  for (const int step : program.flagged_steps)
    results.flags.emplace_back(step, BufferRef(new DeviceBuffer(pjrt::Buffer(api, outputs[next++]), 1, device)));
  return results;
}

TraceCache& TraceCache::instance() {
  // A trace's program is as large as those of many ops.
  static TraceCache* const cache = new TraceCache(std::max<size_t>(1, max_programs() / 16));
  return *cache;
}

std::shared_ptr<TraceProgram> TraceCache::find_or_add(std::vector<uint64_t> key, bool* fresh) {
  const uint64_t hash = hash_words(key.data(), key.size());
  std::vector<Programs::node_type> dropped;  // goes after the lock
  std::lock_guard lock(mutex_);
  ++now_;
  for (auto [it, end] = programs_.equal_range(hash); it != end; ++it) {
    if (it->second->key != key) continue;
    it->second->last_use = now_;
    return it->second;
  }
  if (programs_.size() >= max_size_) drop_oldest(std::max(programs_.size() - max_size_ + 1, max_size_ / 8), &dropped);
  auto program = std::make_shared<TraceProgram>();
  program->key = std::move(key);
  program->last_use = now_;
  programs_.emplace(hash, program);
  *fresh = true;
  return program;
}

void TraceCache::drop_half() {
  std::vector<Programs::node_type> dropped;  // goes after the lock
  std::lock_guard lock(mutex_);
  drop_oldest((programs_.size() + 1) / 2, &dropped);
}

void TraceCache::drop_oldest(size_t excess, std::vector<Programs::node_type>* dropped) {
  std::vector<Programs::iterator> ready;  // what is being compiled would only be compiled again
  for (auto it = programs_.begin(); it != programs_.end(); ++it)
    if (it->second->state.load(std::memory_order_acquire) != TraceProgram::State::kCompiling) ready.push_back(it);
  excess = std::min(ready.size(), excess);
  std::partial_sort(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(excess), ready.end(),
                    [](const auto& a, const auto& b) { return a->second->last_use < b->second->last_use; });
  for (size_t i = 0; i < excess; ++i) dropped->push_back(programs_.extract(ready[i]));
  metrics().programs_dropped += static_cast<int64_t>(excess);
}

void TraceCache::clear() {
  Programs dropped;
  std::lock_guard lock(mutex_);
  programs_.swap(dropped);
}

int64_t TraceCache::bytes() const {
  std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [hash, program] : programs_)
    if (program->state.load(std::memory_order_acquire) == TraceProgram::State::kReady)
      total += program->executable_bytes;
  return total;
}

size_t TraceCache::size() const {
  std::lock_guard lock(mutex_);
  return programs_.size();
}

}  // namespace torch_tpu::runtime
