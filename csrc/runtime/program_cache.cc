#include "runtime/program_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/metrics.h"

namespace torch_tpu::runtime {

size_t max_programs() {
  static const size_t limit = [] {
    constexpr size_t kDefault = 8192;
    const char* text = std::getenv("TORCH_TPU_MAX_PROGRAMS");
    if (!text || !*text) return kDefault;
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    if (*end == '\0' && value > 0) return static_cast<size_t>(value);
    std::fprintf(stderr, "torch_tpu: TORCH_TPU_MAX_PROGRAMS=%s is not a positive number; using %zu\n", text, kDefault);
    return kDefault;
  }();
  return limit;
}

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
  const auto& program = slots_[probe(key.data(), key.size(), hash)].program;
  if (program) {
    const uint32_t now = now_.load(std::memory_order_relaxed);
    if (program->last_use.load(std::memory_order_relaxed) != now) [[unlikely]]
      program->last_use.store(now, std::memory_order_relaxed);
  }
  return program;
}

std::shared_ptr<const Program> ProgramCache::insert(uint64_t hash, std::shared_ptr<const Program> program) {
  std::vector<Slot> dropped;  // goes after the lock
  std::unique_lock lock(mutex_);
  size_t i = probe(program->key.data(), program->key.size(), hash);
  if (slots_[i].program) return slots_[i].program;
  program->last_use = ++now_;
  if (size_ >= max_size_) {
    // An eighth at once: the table is built anew each time.
    dropped = drop_oldest(std::max<size_t>(1, max_size_ / 8));
    i = probe(program->key.data(), program->key.size(), hash);
  }
  if (2 * (size_ + 1) > slots_.size()) {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& s : old)
      if (s.program) slots_[probe(s)] = std::move(s);
    i = probe(program->key.data(), program->key.size(), hash);
  }
  slots_[i] = {hash, std::move(program)};
  ++size_;
  return slots_[i].program;
}

std::vector<ProgramCache::Slot> ProgramCache::drop_oldest(size_t excess) {
  std::vector<Slot> all;
  for (Slot& s : slots_)
    if (s.program) all.push_back(std::move(s));
  excess = std::min(all.size(), excess);
  const auto kept = all.begin() + static_cast<std::ptrdiff_t>(excess);
  std::nth_element(all.begin(), kept, all.end(), [](const Slot& a, const Slot& b) {
    return a.program->last_use.load(std::memory_order_relaxed) < b.program->last_use.load(std::memory_order_relaxed);
  });
  slots_.assign(slots_.size(), {});
  for (auto s = kept; s != all.end(); ++s) slots_[probe(*s)] = std::move(*s);
  all.erase(kept, all.end());
  size_ -= excess;
  metrics().programs_dropped += static_cast<int64_t>(excess);
  return all;
}

int64_t ProgramCache::bytes() const {
  std::shared_lock lock(mutex_);
  int64_t total = 0;
  for (const Slot& s : slots_)
    if (s.program) total += s.program->executable_bytes.load(std::memory_order_relaxed);
  return total;
}

void ProgramCache::drop_half() {
  std::vector<Slot> dropped;  // goes after the lock
  std::unique_lock lock(mutex_);
  dropped = drop_oldest((size_ + 1) / 2);
}

void ProgramCache::clear() {
  std::vector<Slot> dropped(1024);
  std::unique_lock lock(mutex_);
  slots_.swap(dropped);
  size_ = 0;
}

size_t ProgramCache::size() const {
  std::shared_lock lock(mutex_);
  return size_;
}

}  // namespace torch_tpu::runtime
