#include "runtime/program_cache.h"

#include <cstring>

namespace torch_tpu::runtime {

ProgramCache& ProgramCache::instance() {
  static ProgramCache* const cache = new ProgramCache;  // programs may be run during interpreter shutdown
  return *cache;
}

size_t ProgramCache::probe(const uint64_t* key, size_t n, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i].program; i = (i + 1) & mask) {
    if (slots_[i].hash != hash) continue;
    const auto& k = slots_[i].program->key;
    if (k.size() == n && std::memcmp(k.data(), key, n * sizeof(uint64_t)) == 0) break;
  }
  return i;
}

std::shared_ptr<const Program> ProgramCache::find(const KeyWords& key, uint64_t hash) const {
  std::shared_lock lock(mutex_);
  return slots_[probe(key.data(), key.size(), hash)].program;
}

std::shared_ptr<const Program> ProgramCache::insert(uint64_t hash, std::shared_ptr<const Program> program) {
  std::unique_lock lock(mutex_);
  size_t i = probe(program->key.data(), program->key.size(), hash);
  if (slots_[i].program) return slots_[i].program;
  if (2 * (size_ + 1) > slots_.size()) {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& s : old)
      if (s.program) slots_[probe(s.program->key.data(), s.program->key.size(), s.hash)] = std::move(s);
    i = probe(program->key.data(), program->key.size(), hash);
  }
  slots_[i] = {hash, std::move(program)};
  ++size_;
  return slots_[i].program;
}

void ProgramCache::clear() {
  std::unique_lock lock(mutex_);
  slots_.assign(1024, {});
  size_ = 0;
}

size_t ProgramCache::size() const {
  std::shared_lock lock(mutex_);
  return size_;
}

}  // namespace torch_tpu::runtime
