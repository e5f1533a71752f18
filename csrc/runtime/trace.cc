#include "runtime/trace.h"

#include "runtime/bounds.h"
#include "runtime/compile_pool.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"

namespace torch_tpu::runtime {
namespace {

// Longer traces cost more to compile than they gain.
constexpr size_t kMaxSteps = 1024;
// A loop is not closed before this many ops.
constexpr size_t kMinLoopSteps = 64;
// Traces that may wait for their programs before recording waits too: each keeps its inputs in memory.
constexpr size_t kMaxQueued = 8;

constexpr uint64_t kBase = 0x9E3779B97F4A7C15ull;
constexpr uint64_t power(uint64_t base, size_t exponent) {
  uint64_t result = 1;
  while (exponent-- > 0) result *= base;
  return result;
}

}  // namespace

const char* to_string(FlushReason reason) {
  constexpr std::array<const char*, kFlushReasons> kNames = {"read", "synchronize", "step", "size", "loop", "mode"};
  return kNames[static_cast<size_t>(reason)];
}

TraceQueue& trace_queue(int device) {
  static auto* const queues = [] {
    auto* all = new std::vector<std::unique_ptr<TraceQueue>>;
    for (int i = 0; i < kMaxDevices; ++i) all->push_back(std::make_unique<TraceQueue>(i));
    return all;
  }();
  return *queues->at(static_cast<size_t>(device));
}

void flush_traces(FlushReason reason) {
  for (int i = 0; i < kMaxDevices; ++i) trace_queue(i).flush(reason);
}

// --- recording; private functions are called with the lock held

int TraceQueue::value_of(const BufferRef& reference, const Program::Input& type) {
  DeviceBuffer& buffer = *reference.get();
  if (!buffer.is_made() && buffer.trace_ == current_.get()) return buffer.value_;
  // Made already, or by a trace that is queued before this one.
  if (buffer.input_of_ != current_->serial) {
    buffer.input_of_ = current_->serial;
    buffer.input_value_ = static_cast<int>(current_->values.size());
    ++buffer.traces_;
    current_->values.push_back({nullptr, static_cast<int>(current_->inputs.size())});
    current_->inputs.push_back({reference, &type});
  }
  return buffer.input_value_;
}

void TraceQueue::record(std::shared_ptr<const Program> program, Call& call, const int64_t* starts,
                        std::span<BufferRef> results) {
  const Program& p = *program;
  for (const Program::Input& in : p.inputs) materialize(*call.tensors[static_cast<size_t>(in.tensor)].storage);
  InlineVector<uint32_t, 64> words;
  words.resize(static_cast<size_t>(p.packed_words));
  if (p.packed_words > 0) pack(p, call, starts, words.data());
  const SourceLine line = current_source_line();
  constexpr size_t kMany = 4;
  BufferRef few[kMany];
  std::vector<BufferRef> many(p.writes.size() > kMany ? p.writes.size() : 0);
  BufferRef* const written = many.empty() ? few : many.data();
  bool detached = false;
  {
    std::lock_guard lock(mutex_);
    // Not when the call before was recorded: its arguments were still referenced then.
    std::optional<FlushReason> cut = cut_;
    if (!cut && !current_->steps.empty() &&
        current_->steps[0].program->allow_excess_precision != p.allow_excess_precision)
      cut = FlushReason::kMode;
    if (cut) [[unlikely]] {
      detach(*cut);
      detached = true;
    }
    Trace* t = current_.get();
    if (t->steps.empty()) t->serial = next_serial_++;
    const auto count = [](const auto& v) { return static_cast<int>(v.size()); };
    Trace::Step step{nullptr, count(t->operands), 0, count(t->words), line};
    t->key.push_back(p.id);
    for (const Program::Input& in : p.inputs) {
      const int value = value_of(call.tensors[static_cast<size_t>(in.tensor)].storage->buffer, in);
      t->operands.push_back(value);
      t->key.push_back(static_cast<uint64_t>(value));
    }
    step.first_value = count(t->values);
    const auto new_value = [&](int64_t nbytes) {
      auto* fresh = new DeviceBuffer(t, count(t->values), nbytes, device_);
      t->values.push_back({fresh, -1});
      return BufferRef(fresh);
    };
    size_t next = 0;
    for (const Program::Result& r : p.results)
      if (r.defined) results[next++] = new_value(r.nbytes);
    for (size_t i = 0; i < p.writes.size(); ++i)
      written[i] = new_value(call.tensors[static_cast<size_t>(p.writes[i].tensor)].storage->nbytes);
    t->words.insert(t->words.end(), words.begin(), words.end());
    cut_ = cut_after(p.id);
    step.program = std::move(program);
    t->steps.push_back(std::move(step));
  }
  ++metrics().fused_ops;
  // Outside the lock: the old arrays may be pending, and forgetting them takes it.
  for (size_t i = 0; i < p.writes.size(); ++i)
    call.tensors[static_cast<size_t>(p.writes[i].tensor)].storage->buffer = std::move(written[i]);
  if (detached) [[unlikely]]
    run_queued();
}

std::optional<FlushReason> TraceQueue::cut_after(uint64_t program_id) {
  constexpr uint64_t kOldest = power(kBase, kContext);
  uint64_t& slot = recent_[recorded_++ % kContext];
  context_ = context_ * kBase + program_id - slot * kOldest;
  slot = program_id;
  const size_t length = current_->steps.size() + 1;
  if (length >= kMaxSteps) {
    size_t& known = cuts_[context_];
    known = std::max(known, length);
    return FlushReason::kSize;
  }
  if (length < kMinLoopSteps || cuts_.empty()) return std::nullopt;
  const auto cut = cuts_.find(context_);
  if (cut == cuts_.end() || length < cut->second / 2) return std::nullopt;
  return FlushReason::kLoop;
}

// --- flushing

void TraceQueue::detach(FlushReason reason) {
  cut_.reset();
  if (current_->steps.empty()) return;
  auto job = std::make_unique<Job>();
  job->trace = std::exchange(current_, std::make_unique<Trace>());
  Trace& t = *job->trace;
  std::vector<int> outputs;
  t.key.push_back(0);  // no program has this number
  for (size_t i = 0; i < t.values.size(); ++i) {
    if (!t.values[i].product) continue;
    outputs.push_back(static_cast<int>(i));
    t.key.push_back(i);
  }
  t.key.push_back(0);
  std::vector<bool> donatable;
  for (size_t i = 0; i < t.inputs.size(); ++i) {
    // Traces that are queued before this one have run, and let go, when it runs. Counting them as owners would make the
    // key a matter of time.
    const BufferRef& buffer = t.inputs[i].buffer;
    donatable.push_back(buffer.count() == buffer->traces_);
    if (donatable.back()) t.key.push_back(i);
  }
  bool fresh = false;
  job->program = TraceCache::instance().find_or_add(std::move(t.key), &fresh);
  ++metrics().flushes[static_cast<size_t>(reason)];
  if (fresh) {
    job->program->outputs = std::move(outputs);
    // The job stays in the queue, and with it the trace, until the program is compiled.
    submit_compilation([this, &t, donatable = std::move(donatable), program = job->program] {
      compile_trace(t, donatable, *program);
      for (int i = 0; i < kMaxDevices; ++i) trace_queue(i).pump();
    });
  } else {
    ++metrics().cache_hits_memory;
  }
  jobs_.push_back(std::move(job));
}

void TraceQueue::flush(FlushReason reason) {
  {
    std::unique_lock lock(mutex_);
    detach(reason);
    if (jobs_.empty()) return;
  }
  run_queued();
}

void TraceQueue::run_queued() {
  pump();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() <= kMaxQueued; });
}

void TraceQueue::finish(FlushReason reason) {
  flush(reason);
  std::exception_ptr failure;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.empty(); });
    failure = std::exchange(first_failure_, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

bool TraceQueue::is_idle() {
  std::lock_guard lock(mutex_);
  return jobs_.empty() && current_->steps.empty();
}

void TraceQueue::make(DeviceBuffer& buffer) {
  using State = DeviceBuffer::State;
  const auto pending = [&] { return buffer.state_.load(std::memory_order_acquire) == State::kPending; };
  if (pending()) {
    {
      std::lock_guard lock(mutex_);
      if (pending() && buffer.trace_ == current_.get()) detach(FlushReason::kRead);
    }
    pump();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pending(); });
  }
  if (buffer.state_.load(std::memory_order_acquire) == State::kFailed) {
    {
      // Whoever reads the value is told; synchronization need not tell it again.
      std::lock_guard lock(mutex_);
      if (first_failure_ == buffer.failure_) first_failure_ = nullptr;
    }
    std::rethrow_exception(buffer.failure_);
  }
}

void TraceQueue::forget(DeviceBuffer& buffer) {
  std::lock_guard lock(mutex_);
  if (buffer.state_.load(std::memory_order_relaxed) == DeviceBuffer::State::kPending)
    buffer.trace_->values[static_cast<size_t>(buffer.value_)].product = nullptr;
}

void TraceQueue::pump() {
  std::unique_lock lock(mutex_);
  while (!running_ && !jobs_.empty()) {
    Job& job = *jobs_.front();
    if (job.program->state.load(std::memory_order_acquire) == TraceProgram::State::kCompiling) return;
    running_ = true;
    lock.unlock();
    run(job);
    lock.lock();
    running_ = false;
    std::unique_ptr<Job> done = std::move(jobs_.front());
    jobs_.pop_front();
    changed_.notify_all();
    // Outside the lock: its programs and inputs go.
    lock.unlock();
    done.reset();
    lock.lock();
  }
}

void TraceQueue::run(Job& job) {
  using State = DeviceBuffer::State;
  TraceResults results;
  std::exception_ptr failure;
  try {
    results = run_trace(*job.trace, *job.program, device_);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    // With the lock, so that counts of owners are right. None is pending, so that nobody takes the lock again.
    for (const Trace::Input& in : job.trace->inputs) --in.buffer->traces_;
    job.trace->inputs.clear();
    for (size_t i = 0; i < job.program->outputs.size(); ++i) {
      DeviceBuffer* product = job.trace->values[static_cast<size_t>(job.program->outputs[i])].product;
      if (!product) continue;
      product->trace_ = nullptr;
      const std::exception_ptr why = failure ? failure : results.failures[i];
      if (why) {
        product->failure_ = why;
        product->state_.store(State::kFailed, std::memory_order_release);
        if (!first_failure_) first_failure_ = why;
        continue;
      }
      product->buffer_ = std::move(results.outputs[i]);
      product->origin_ = results.origin;
      memory_counters(device_).add(product->bytes_);
      product->state_.store(State::kMade, std::memory_order_release);
    }
    if (failure && !first_failure_) first_failure_ = failure;
  }
  try {
    for (auto& [number, flag] : results.flags) {
      const Trace::Step& step = job.trace->steps[static_cast<size_t>(number)];
      add_bounds_flag(std::move(flag), step.program->op, step.line);
    }
  } catch (const std::runtime_error&) {
    // An older run's flag, found on this thread by chance.
    std::lock_guard lock(mutex_);
    if (!first_failure_) first_failure_ = std::current_exception();
  }
}

}  // namespace torch_tpu::runtime
