// The first cache level: programs by key, compared in full.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "runtime/program.h"

namespace torch_tpu::runtime {

class ProgramCache {
 public:
  static ProgramCache& instance();

  std::shared_ptr<const Program> find(const KeyWords& key, uint64_t hash) const;
  // Keeps the program that came first when two threads built one.
  std::shared_ptr<const Program> insert(uint64_t hash, std::shared_ptr<const Program> program);
  void clear();
  size_t size() const;

 private:
  struct Slot {
    uint64_t hash = 0;
    std::shared_ptr<const Program> program;
  };
  size_t probe(const uint64_t* key, size_t n, uint64_t hash) const;

  mutable std::shared_mutex mutex_;
  std::vector<Slot> slots_{1024};  // open addressing, a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace torch_tpu::runtime
