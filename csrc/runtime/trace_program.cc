#include "runtime/trace_program.h"

#include <algorithm>
#include <chrono>

#include "runtime/executor.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/module_record.h"
#include "runtime/program_cache.h"
#include "runtime/session.h"
#include "runtime/trace_lowering.h"

namespace torch_tpu::runtime {
namespace {
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
      for (size_t k = 0; k < trace_.steps[i].program->num_products(); ++k)
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

  size_t operand(const Trace::Step& step, size_t k) const { return static_cast<size_t>(step.operands_of(trace_)[k]); }

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
    for (; next < p.num_products(); ++next)
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

// Fills `made`, by value number, and the flags of `results`.
void run_part(const Trace& trace, const TracePart& part, const BufferRef& words, int device,
              std::vector<pjrt::Buffer>& made, TraceResults& results) {
  const PJRT_Api* api = Session::get().client().api();
  std::vector<PJRT_Buffer*> args;
  args.reserve(part.inputs.size() + 1);
  for (const int number : part.inputs) {
    const int input = trace.values[static_cast<size_t>(number)].input;
    args.push_back(input >= 0 ? trace.inputs[static_cast<size_t>(input)].buffer->get()
                              : made[static_cast<size_t>(number)].get());
  }
  if (part.takes_words) args.push_back(words->get());
  std::vector<PJRT_Buffer*> outputs(part.outputs.size() + part.flagged_steps.size());
  try {
    launch(*part.executable, results.origin, args, {}, device, outputs);
  } catch (const FailedRun&) {
    for (PJRT_Buffer* b : outputs) pjrt::Buffer(api, b).reset();
    throw;
  }
  size_t next = 0;
  for (const int number : part.outputs) made[static_cast<size_t>(number)] = pjrt::Buffer(api, outputs[next++]);
  for (const int step : part.flagged_steps)
    results.flags.emplace_back(step, BufferRef(new DeviceBuffer(pjrt::Buffer(api, outputs[next++]), 1, device)));
}

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
    std::vector<TracePart> parts = lower_trace(trace, donatable, program.outputs);
    metrics().lowering_nanoseconds += (std::chrono::steady_clock::now() - start).count();
    for (TracePart& part : parts) {
      record_module(trace.name(), part.text);
      if (log_enabled("compile", LogLevel::kInfo)) log("compile", LogLevel::kInfo, trace.name());
      CompiledProgram compiled = Session::get().compile(part.text, trace.steps[0].program->allow_excess_precision);
      part.executable = std::move(compiled.executable);
      part.text = {};
      program.executable_bytes += compiled.bytes;
    }
    program.parts = std::move(parts);
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
  TraceResults results;
  results.origin = trace.summary();
  std::vector<pjrt::Buffer> made(trace.values.size());
  try {
    BufferRef words;
    if (!trace.words.empty()) words = upload_packed(trace.words, device);
    for (const TracePart& part : program.parts) run_part(trace, part, words, device, made, results);
  } catch (const FailedRun&) {
    throw;
  } catch (const std::exception& e) {  // not all was issued; an input that failed is one reason
    log("execute", LogLevel::kInfo, std::string("op by op: ") + e.what());
    return Replay(trace, device, true).run(program);
  }
  results.failures.resize(program.outputs.size());
  for (const int number : program.outputs) results.outputs.push_back(std::move(made[static_cast<size_t>(number)]));
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
