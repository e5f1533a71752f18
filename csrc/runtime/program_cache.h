// The first cache level: programs by key, compared in full. Past a cap the least recently used ones are dropped;
// whoever runs one holds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "runtime/program.h"

namespace torch_tpu::runtime {

// TORCH_TPU_MAX_PROGRAMS: how many programs of single ops are kept in memory.
size_t max_programs();

class ProgramCache {
 public:
  static ProgramCache& instance();
  explicit ProgramCache(size_t max_size = max_programs()) : max_size_(max_size) {}

  std::shared_ptr<const Program> find(const KeyWords& key, uint64_t hash) const;
  // Keeps the program that came first when two threads built one.
  std::shared_ptr<const Program> insert(uint64_t hash, std::shared_ptr<const Program> program);
  void clear();
  // Drops the half that was not used for longest.
  void drop_half();
  size_t size() const;
  // Of the executables.
  int64_t bytes() const;

 private:
  struct Slot {
    uint64_t hash = 0;
    std::shared_ptr<const Program> program;
  };
  size_t probe(const uint64_t* key, size_t n, uint64_t hash) const;
  size_t probe(const Slot& slot) const { return probe(slot.program->key.data(), slot.program->key.size(), slot.hash); }
  // Takes what was not used for longest out of the table, so that it may go without the lock.
  std::vector<Slot> drop_oldest(size_t excess);

  mutable std::shared_mutex mutex_;
  std::vector<Slot> slots_{1024};  // open addressing, a power of two, at most half full
  size_t size_ = 0;
  const size_t max_size_;
  // The number of programs inserted: a use is as old as the programs that came after it. So programs that are only
  // looked up, over and over, are not written to.
  std::atomic<uint32_t> now_{0};
};

}  // namespace torch_tpu::runtime
