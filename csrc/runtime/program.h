// A compiled program with what is needed to run it for any call of the same key.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pjrt/executable.h"
#include "runtime/access_plan.h"
#include "runtime/call.h"
#include "runtime/description.h"

namespace torch_tpu::runtime {

class Recipe;

struct PackedValue {
  enum class Source : uint8_t { kScalar, kStart, kRandomKey, kRandomCounter };
  Source source;
  ElementType as;  // kF32 and 32-bit integers take one word, 64-bit types two, complex twice that
  int index;       // scalar, or tensor
  int64_t detail;  // position in the list of all starts; or the counter's distance from the call's first block
  int word;
};

class Program {
 public:
  struct Input {
    int tensor;       // the first tensor argument on this storage
    int parameter;    // position among the program's parameters
    int output = -1;  // >= 0: the output that may take over the memory
    ElementType element;
    std::vector<int64_t> dims;
  };
  struct Result {
    bool defined = true;
    ElementType element = ElementType::kInvalid;
    std::vector<int64_t> sizes, strides;  // of the tensor
    std::vector<int64_t> dims;            // of the array: sizes in stride order
    int64_t nbytes = 0;
  };
  struct Write {
    int tensor;  // whose storage gets the output
  };
  struct Starts {
    int tensor;
    int first;  // position of the tensor's first start in the list of all starts
    AccessPlan plan;
  };

  std::string op;
  std::vector<uint64_t> key;
  uint64_t id = 0;  // of this program in this process; never used twice
  std::shared_ptr<const Recipe> recipe;
  std::vector<Input> inputs;
  std::vector<PackedValue> packed;
  int packed_words = 0, packed_parameter = -1;  // -1: no runtime values
  int num_parameters = 0;
  std::vector<Starts> starts;
  int num_starts = 0;
  std::vector<Result> results;
  std::vector<Write> writes;     // outputs after the defined results
  bool has_bounds_flag = false;  // the last output, a byte: 0 or a lowering::Fault
  int64_t random_blocks = 0;
  int num_outputs = 0;
  // Outputs that are arrays of tensors.
  size_t num_products() const {
    size_t n = writes.size();
    for (const Result& r : results) n += r.defined;
    return n;
  }
  bool allow_excess_precision = false;

  // ProgramCache's.
  mutable std::atomic<uint32_t> last_use{0};
  // Set when there is an executable.
  mutable std::atomic<int64_t> executable_bytes{0};

  // The start indices of this call. False when some offsets do not fit: those tensors, which then need irregular plans,
  // are marked in `misfits` (by position in the call), all at once so that one more program serves them.
  bool compute_starts(const Call& call, int64_t* out, std::vector<bool>* misfits) const {
    bool fit = true;
    for (const Starts& s : starts) {
      const auto i = static_cast<size_t>(s.tensor);
      if (s.plan.starts(call.tensors[i].offset, out + s.first)) continue;
      fit = false;
      misfits->resize(call.tensors.size());
      (*misfits)[i] = true;
    }
    return fit;
  }

  // Compiled, or loaded from disk, when it is first asked for: a call that only ever ran in traces needs none. One
  // thread does it, others wait. `text`: the module that lower() gave, where it is at hand. Throws pjrt::Error, with
  // the op's name.
  const pjrt::LoadedExecutable& executable(const std::string* text = nullptr) const {
    if (const auto* ready = ready_.load(std::memory_order_acquire)) [[likely]]
      return *ready;
    return compile(text);
  }

 private:
  const pjrt::LoadedExecutable& compile(const std::string* text) const;

  mutable std::atomic<const pjrt::LoadedExecutable*> ready_{nullptr};
  mutable std::mutex compiling_;
  mutable std::unique_ptr<pjrt::LoadedExecutable> executable_;
};

}  // namespace torch_tpu::runtime
