// A trace's calls, and the program that they become.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pjrt/error.h"
#include "runtime/memory.h"
#include "runtime/program.h"
#include "runtime/source_line.h"

namespace torch_tpu::runtime {

// What messages say of a trace, which may be gone by then.
struct TraceSummary {
  struct Op {
    std::shared_ptr<const Program> program;
    SourceLine line;
  };
  size_t ops;
  Op first, last;
  std::string describe() const;
};

// Runs `body`; its pjrt::Error names the trace, where there is one.
template <typename Body>
void with_origin(const TraceSummary* origin, Body&& body) {
  try {
    body();
  } catch (const pjrt::Error& e) {
    if (!origin) throw;
    throw pjrt::Error(e.code(), origin->describe() + ": " + e.what());
  }
}

class Trace {
 public:
  struct Step {
    std::shared_ptr<const Program> program;
    int first_operand;  // one per Program::inputs
    int first_value;    // one per defined result, then one per write
    int first_word;     // of the packed runtime values
    SourceLine line;    // that called it
    std::span<const int> operands_of(const Trace& trace) const {
      return std::span(trace.operands).subspan(static_cast<size_t>(first_operand), program->inputs.size());
    }
  };
  struct Value {
    DeviceBuffer* product = nullptr;  // what a step makes; null once nobody refers to it
    int input = -1;                   // or a position in `inputs`
  };
  struct Input {
    BufferRef buffer;
    const Program::Input* type;  // of the call that reads it first
  };

  uint64_t serial = 0;
  std::vector<Step> steps;
  std::vector<int> operands;  // value numbers
  std::vector<Value> values;
  std::vector<Input> inputs;
  std::vector<uint32_t> words;
  std::vector<uint64_t> key;

  // How many ops, and the first and last of them.
  std::string name() const;
  std::shared_ptr<const TraceSummary> summary() const;
};

// One program of those that a trace becomes.
struct TracePart {
  std::string text;  // until it is compiled
  std::unique_ptr<pjrt::LoadedExecutable> executable;
  std::vector<int> inputs;         // value numbers, by parameter
  bool takes_words = false;        // the packed runtime values of the whole trace, the last parameter
  std::vector<int> outputs;        // value numbers
  std::vector<int> flagged_steps;  // whose bounds flags follow the outputs
};

struct TraceProgram {
  enum class State : uint8_t { kCompiling, kReady, kReplay };

  std::vector<uint64_t> key;
  std::vector<int> outputs;  // value numbers
  // Filled by compile_trace:
  std::vector<TracePart> parts;
  int64_t executable_bytes = 0;
  // kReplay: the program could not be compiled, and its ops run one by one.
  std::atomic<State> state{State::kCompiling};

  uint64_t last_use = 0;  // TraceCache's
};

// Lowers and compiles the trace into `program`, whose key and outputs are set; ends in kReady or kReplay. `donatable`
// is by input.
void compile_trace(const Trace& trace, const std::vector<bool>& donatable, TraceProgram& program);

struct TraceResults {
  std::shared_ptr<const TraceSummary> origin;
  std::vector<pjrt::Buffer> outputs;             // as TraceProgram::outputs
  std::vector<std::exception_ptr> failures;      // likewise; empty, or why there is no such output
  std::vector<std::pair<int, BufferRef>> flags;  // step, bounds flag
};
// Issues the trace's work. Where the program cannot be run (no memory for all of it, say) its ops run one by one, so
// that only what depends on the op that fails is lost.
TraceResults run_trace(Trace& trace, const TraceProgram& program, int device);

// Programs of traces by key, compared in full. Past a cap the least recently used ones are dropped; traces that wait
// for theirs hold it.
class TraceCache {
 public:
  static TraceCache& instance();
  explicit TraceCache(size_t max_size) : max_size_(max_size) {}
  // `*fresh`: the caller has to compile it.
  std::shared_ptr<TraceProgram> find_or_add(std::vector<uint64_t> key, bool* fresh);
  void clear();
  // Drops the half that was not used for longest.
  void drop_half();
  size_t size() const;
  // Of the executables.
  int64_t bytes() const;

 private:
  using Programs = std::unordered_multimap<uint64_t, std::shared_ptr<TraceProgram>>;
  void drop_oldest(size_t excess, std::vector<Programs::node_type>* dropped);

  mutable std::mutex mutex_;
  Programs programs_;
  const size_t max_size_;
  uint64_t now_ = 0;  // counts look-ups
};

}  // namespace torch_tpu::runtime
