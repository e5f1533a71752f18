#include "runtime/executor.h"

#include <chrono>
#include <cstring>
#include <mutex>

#include "runtime/bounds.h"
#include "runtime/in_flight.h"
#include "runtime/log.h"
#include "runtime/lower.h"
#include "runtime/metrics.h"
#include "runtime/module_record.h"
#include "runtime/program_cache.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "runtime/transfer.h"

namespace torch_tpu::runtime {
namespace {

std::atomic<EagerMode> mode{EagerMode::kStrict};

// Small packed inputs by content: a loop with constant scalars uploads nothing.
class PackedCache {
 public:
  BufferRef get(const uint32_t* words, size_t n, int device) {
    uint64_t hash = 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(device);
    for (size_t i = 0; i < n; ++i) hash = (hash ^ words[i]) * 0xBF58476D1CE4E5B9ull ^ (hash >> 31);
    Entry& entry = entries_[(hash ^ hash >> 32) % kEntries];
    {
      std::lock_guard lock(mutex_);
      if (entry.buffer && entry.device == device && entry.words.size() == n &&
          std::memcmp(entry.words.data(), words, n * sizeof(uint32_t)) == 0)
        return entry.buffer;
    }
    const int64_t dims[1] = {static_cast<int64_t>(n)};
    BufferRef fresh = upload(words, ElementType::kU32, dims, device);
    std::lock_guard lock(mutex_);
    entry.words.assign(words, words + n);
    entry.device = device;
    entry.buffer = fresh;
    return fresh;
  }

  void clear() {
    std::lock_guard lock(mutex_);
    entries_ = std::vector<Entry>(kEntries);
  }

 private:
  static constexpr size_t kEntries = 512;
  struct Entry {
    std::vector<uint32_t> words;
    int device = -1;
    BufferRef buffer;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_{kEntries};
};

PackedCache& packed_cache() {
  static PackedCache* const cache = new PackedCache;
  return *cache;
}

template <typename T>
void put(uint32_t* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

void put_real(uint32_t* out, ElementType as, double value, bool tpu) {
  if (as == ElementType::kF32) return put(out, static_cast<float>(value));
  if (!tpu) return put(out, value);
  // A TPU's double is a pair of floats.
  const auto high = static_cast<float>(value);
  put(out, static_cast<float>(value - high));
  put(out + 1, high);
}

void put_scalar(uint32_t* out, ElementType as, const ScalarValue& s, bool tpu) {
  switch (as) {
    case ElementType::kF32:
    case ElementType::kF64:
      return put_real(out, as, s.as_double(), tpu);
    case ElementType::kC64:
      put_real(out, ElementType::kF32, s.as_double(), tpu);
      return put_real(out + 1, ElementType::kF32, s.imag, tpu);
    case ElementType::kC128:
      put_real(out, ElementType::kF64, s.as_double(), tpu);
      return put_real(out + 2, ElementType::kF64, s.imag, tpu);
    case ElementType::kS32:
    case ElementType::kU32:
      return put(out, static_cast<int32_t>(s.as_integer()));
    default:
      return put(out, s.as_integer());
  }
}

// The run failed before it was issued in full. Written storages keep their arrays, but for those that the run has taken
// (donation): they get the failed output, which raises the failure again where it is read.
void discard(const Program& program, Call& call, PJRT_Buffer* const* outputs, const PJRT_Api* api) {
  size_t next = 0;
  for (const Program::Result& r : program.results)
    if (r.defined) pjrt::Buffer(api, outputs[next++]).reset();
  for (const Program::Write& w : program.writes) {
    Storage& storage = *call.tensors[static_cast<size_t>(w.tensor)].storage;
    pjrt::Buffer output(api, outputs[next++]);
    if (!storage.buffer || !storage.buffer->buffer().is_deleted()) continue;
    storage.buffer = BufferRef();
    storage.buffer = BufferRef(new DeviceBuffer(std::move(output), storage.nbytes, call.device));
  }
  if (program.has_bounds_flag) pjrt::Buffer(api, outputs[next]).reset();
}

}  // namespace

EagerMode eager_mode() { return mode.load(std::memory_order_relaxed); }
void set_eager_mode(EagerMode m) {
  if (mode.exchange(m) == EagerMode::kFused && m != EagerMode::kFused) flush_traces(FlushReason::kMode);
}

void clear_packed_cache() { packed_cache().clear(); }

DeviceBuffer& materialize(Storage& storage) {
  if (!storage.buffer) storage.buffer = zeros(storage.element, storage.dims, storage.device);
  return *storage.buffer.get();
}

void pack(const Program& program, Call& call, const int64_t* starts, uint32_t* words) {
  const bool tpu = Session::get().target().is_tpu();
  uint64_t seed = 0, counter = 0;
  if (program.random_blocks > 0) call.random->reserve(program.random_blocks, &seed, &counter);
  for (const PackedValue& p : program.packed) {
    uint32_t* out = words + p.word;
    switch (p.source) {
      case PackedValue::Source::kScalar:
        put_scalar(out, p.as, call.scalars[static_cast<size_t>(p.index)], tpu);
        break;
      case PackedValue::Source::kStart: {
        const int64_t value = starts[p.detail];
        if (p.as == ElementType::kS32) {
          put(out, static_cast<int32_t>(value));
        } else {
          put(out, value);
        }
        break;
      }
      case PackedValue::Source::kRandomKey:
        put(out, seed);
        break;
      case PackedValue::Source::kRandomCounter:
        put(out, counter + static_cast<uint64_t>(p.detail));
        break;
    }
  }
}

BufferRef upload_packed(std::span<const uint32_t> words, int device) {
  constexpr size_t kCachedWords = 256;
  if (words.size() <= kCachedWords) return packed_cache().get(words.data(), words.size(), device);
  const int64_t dims[1] = {static_cast<int64_t>(words.size())};
  return upload(words.data(), ElementType::kU32, dims, device);
}

std::shared_ptr<const Program> build_program(const Call& call, CallDescription description, uint64_t hash,
                                             bool compile) {
  static std::atomic<uint64_t> next_id{1};
  auto program = std::make_shared<Program>();
  program->id = next_id.fetch_add(1);
  program->key.assign(call.key.begin(), call.key.end());
  program->recipe = std::make_shared<const Recipe>(call, std::move(description));
  const auto start = std::chrono::steady_clock::now();
  const std::string text = lower(*program->recipe, Session::get().target(), *program);
  metrics().lowering_nanoseconds += (std::chrono::steady_clock::now() - start).count();
  // Others that miss the same key find it from here on, and wait for the one executable.
  std::shared_ptr<const Program> kept = ProgramCache::instance().insert(hash, std::move(program));
  if (compile) kept->executable(&text);
  return kept;
}

const pjrt::LoadedExecutable& Program::compile(const std::string* text) const {
  std::lock_guard lock(compiling_);
  if (executable_) return *executable_;
  std::string made;
  if (!text) {
    Program scratch;
    made = lower(*recipe, Session::get().target(), scratch);
    text = &made;
  }
  record_program(*recipe, *text);
  if (log_enabled("compile", LogLevel::kInfo)) log("compile", LogLevel::kInfo, op);
  try {
    CompiledProgram compiled = Session::get().compile(*text, allow_excess_precision);
    executable_ = std::move(compiled.executable);
    executable_bytes = compiled.bytes;
  } catch (const pjrt::Error& e) {
    throw pjrt::Error(e.code(), op + ": " + e.what());
  }
  ready_.store(executable_.get(), std::memory_order_release);
  return *executable_;
}

namespace {

// `describe` says what is run, where it is to be told.
template <typename Describe>
void launch(const pjrt::LoadedExecutable& executable, std::span<PJRT_Buffer* const> args, std::span<const int64_t> keep,
            int device, std::span<PJRT_Buffer*> outputs, std::shared_ptr<const TraceSummary> origin,
            Describe&& describe) {
  Session& session = Session::get();
  PJRT_Event* done = nullptr;
  pjrt::ExecuteArgs options;
  options.device = session.device(device).get();
  options.non_donatable = keep;
  options.complete_event = &done;
  try {
    executable.execute(args, outputs, options);
  } catch (const pjrt::Error& e) {
    throw pjrt::Error(e.code(), describe() + ": " + e.what());
  }
  ++metrics().executions;
  try {
    in_flight(device).add({pjrt::Event(session.client().api(), done), origin});
  } catch (const pjrt::Error& e) {
    if (origin) {
      // What an earlier run took along with it is that run's.
      try {
        in_flight(device).wait();
      } catch (const pjrt::Error& earlier) {
        throw FailedRun(earlier.code(), earlier.what());
      }
    }
    throw FailedRun(e.code(), describe() + ": " + e.what());
  }
}

}  // namespace

void launch(const pjrt::LoadedExecutable& executable, const std::string& op, std::span<PJRT_Buffer* const> args,
            std::span<const int64_t> keep, int device, std::span<PJRT_Buffer*> outputs) {
  launch(executable, args, keep, device, outputs, nullptr, [&] { return op; });
}

void launch(const pjrt::LoadedExecutable& executable, std::shared_ptr<const TraceSummary> origin,
            std::span<PJRT_Buffer* const> args, std::span<const int64_t> keep, int device,
            std::span<PJRT_Buffer*> outputs) {
  launch(executable, args, keep, device, outputs, origin, [&] { return origin->describe(); });
}

void execute(const Program& program, Call& call, const int64_t* starts, std::span<BufferRef> results) {
  InlineVector<PJRT_Buffer*, 32> args;
  InlineVector<int64_t, 32> keep;
  args.resize(static_cast<size_t>(program.num_parameters));
  BufferRef packed;
  if (program.packed_parameter >= 0) {
    InlineVector<uint32_t, 64> words;
    words.resize(static_cast<size_t>(program.packed_words));
    pack(program, call, starts, words.data());
    packed = upload_packed(words, call.device);
    args[static_cast<size_t>(program.packed_parameter)] = packed->get();
  }
  for (const Program::Input& in : program.inputs) {
    Storage& storage = *call.tensors[static_cast<size_t>(in.tensor)].storage;
    DeviceBuffer& buffer = materialize(storage);
    args[static_cast<size_t>(in.parameter)] = buffer.get();
    if (in.output >= 0 && !storage.buffer.unique()) keep.push_back(in.parameter);
  }
  // Two storages may share one buffer; it is then not unique and never donated, so no argument is donated twice.
  InlineVector<PJRT_Buffer*, 32> outputs;
  outputs.resize(static_cast<size_t>(program.num_outputs));
  const PJRT_Api* api = Session::get().client().api();
  try {
    launch(program.executable(), program.op, args, keep, call.device, {outputs.data(), outputs.size()});
  } catch (const FailedRun&) {
    discard(program, call, outputs.data(), api);
    throw;
  }

  size_t next = 0, result = 0;
  for (const Program::Result& r : program.results)
    if (r.defined)
      results[result++] = BufferRef(new DeviceBuffer(pjrt::Buffer(api, outputs[next++]), r.nbytes, call.device));
  for (const Program::Write& w : program.writes) {
    Storage& storage = *call.tensors[static_cast<size_t>(w.tensor)].storage;
    // The old array goes first: when it was donated its memory is the new one's, and must not count twice.
    storage.buffer = BufferRef();
    storage.buffer = BufferRef(new DeviceBuffer(pjrt::Buffer(api, outputs[next++]), storage.nbytes, call.device));
  }
  BufferRef flag;
  if (program.has_bounds_flag) flag = BufferRef(new DeviceBuffer(pjrt::Buffer(api, outputs[next++]), 1, call.device));
  if (eager_mode() == EagerMode::kDebug) {
    try {
      in_flight(call.device).wait();
    } catch (const pjrt::Error& e) {
      throw pjrt::Error(e.code(), program.op + ": " + e.what());
    }
    if (flag) check_bounds_flag(*flag.get(), program.op, {}, true);
  } else if (flag) {
    add_bounds_flag(std::move(flag), program.op, current_source_line());
  }
}

}  // namespace torch_tpu::runtime
