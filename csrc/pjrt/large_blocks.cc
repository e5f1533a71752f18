#include "pjrt/large_blocks.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace torch_tpu::pjrt {
namespace {

class Blocks {
 public:
  int allocate(void** out, size_t alignment, size_t size) {
    const auto wanted = static_cast<int64_t>(size);
    if (void* found = take(alignment, wanted)) {
      *out = found;
      return 0;
    }
    int failure = ::posix_memalign(out, alignment, size);
    if (failure == ENOMEM && release() > 0) failure = ::posix_memalign(out, alignment, size);
    if (failure != 0) return failure;
    std::lock_guard lock(mutex_);
    in_use_.emplace(*out, wanted);
    stats_.in_use += wanted;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
    while (stats_.in_use + stats_.kept > stats_.peak_in_use) drop_oldest();
    return 0;
  }

  // False for a block that is not of here.
  bool keep(void* block) {
    std::lock_guard lock(mutex_);
    const auto it = in_use_.find(block);
    if (it == in_use_.end()) return false;
    stats_.in_use -= it->second;
    stats_.kept += it->second;
    kept_.push_back({block, it->second});
    in_use_.erase(it);
    return true;
  }

  int64_t release() {
    std::lock_guard lock(mutex_);
    const int64_t bytes = stats_.kept;
    while (!kept_.empty()) drop_oldest();
    return bytes;
  }

  LargeBlockStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Block {
    void* data;
    int64_t bytes;
  };

  // The smallest that is kept and wastes at most a quarter.
  void* take(size_t alignment, int64_t bytes) {
    std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->bytes < bytes || it->bytes > bytes + bytes / 4) continue;
      if (reinterpret_cast<uintptr_t>(it->data) % alignment != 0) continue;
      if (best == kept_.end() || it->bytes < best->bytes) best = it;
    }
    if (best == kept_.end()) return nullptr;
    void* data = best->data;
    in_use_.emplace(data, best->bytes);
    stats_.in_use += best->bytes;
    stats_.kept -= best->bytes;
    kept_.erase(best);
    return data;
  }

  void drop_oldest() {
    stats_.kept -= kept_.front().bytes;
    std::free(kept_.front().data);
    kept_.pop_front();
  }

  std::mutex mutex_;
  std::unordered_map<void*, int64_t> in_use_;
  std::deque<Block> kept_;  // the oldest first
  LargeBlockStats stats_{};
};

Blocks& blocks() {
  static auto* const blocks = new Blocks;  // the plugin's threads may outlive static destruction
  return *blocks;
}

}  // namespace

int allocate_large_block(void** out, size_t alignment, size_t size) { return blocks().allocate(out, alignment, size); }

bool keep_large_block(void* block) { return blocks().keep(block); }

int64_t release_large_blocks() { return blocks().release(); }

LargeBlockStats large_block_stats() { return blocks().stats(); }

}  // namespace torch_tpu::pjrt
