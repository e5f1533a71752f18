#include "pjrt/large_blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

namespace torch_tpu::pjrt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Null where the system has no memory for it. A huge page is one page fault and one entry of the processor's table
// instead of 512; the system gives them where an aligned stretch of one is wholly mapped.
void* map(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const size_t reserved = size < kHugePage ? size : size + kHugePage;
  void* data = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (reserved == size) return data;
  auto* const first = static_cast<std::byte*>(data);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  const size_t used = (size + page - 1) / page * page;
  if (before > 0) ::munmap(first, before);
  if (reserved > before + used) ::munmap(first + before + used, reserved - before - used);
  ::madvise(first + before, size, MADV_HUGEPAGE);  // advice: where it cannot be taken, nothing is lost
  return first + before;
}

class Blocks {
 public:
  void* allocate(int64_t bytes) {
    if (void* kept = take(bytes)) return kept;
    void* data = map(bytes);
    if (data == nullptr && release() > 0) data = map(bytes);
    if (data == nullptr) return nullptr;
    std::lock_guard lock(mutex_);
    in_use_.emplace(data, bytes);
    stats_.in_use += bytes;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
    while (stats_.in_use + stats_.kept > most_mapped()) drop_oldest();
    return data;
  }

  // False for a block that is not of here.
  bool keep(void* data) {
    std::lock_guard lock(mutex_);
    const auto it = in_use_.find(data);
    if (it == in_use_.end()) return false;
    const int64_t bytes = it->second;
    stats_.in_use -= bytes;
    stats_.kept += bytes;
    by_age_.push_back({data, bytes});
    by_size_.emplace(bytes, std::prev(by_age_.end()));
    in_use_.erase(it);
    return true;
  }

  int64_t release() {
    std::lock_guard lock(mutex_);
    const int64_t bytes = stats_.kept;
    while (!by_age_.empty()) drop_oldest();
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

  // Without the quarter, a step whose arrays have many sizes drops blocks that it needs again: the order in which they
  // are freed, and so which one serves which, differs from step to step.
  int64_t most_mapped() const { return stats_.peak_in_use + stats_.peak_in_use / 4; }

  // The smallest that is kept and wastes at most a quarter; of equals the last one freed, which caches may still hold.
  void* take(int64_t bytes) {
    std::lock_guard lock(mutex_);
    auto found = by_size_.lower_bound(bytes);
    if (found == by_size_.end() || found->first > bytes + bytes / 4) return nullptr;
    found = std::prev(by_size_.upper_bound(found->first));
    const Block block = *found->second;
    by_age_.erase(found->second);
    by_size_.erase(found);
    in_use_.emplace(block.data, block.bytes);
    stats_.in_use += block.bytes;
    stats_.kept -= block.bytes;
    return block.data;
  }

  void drop_oldest() {
    const Block block = by_age_.front();
    by_size_.erase(by_size_.lower_bound(block.bytes));  // equals are in order of age
    by_age_.pop_front();
    stats_.kept -= block.bytes;
    ::munmap(block.data, static_cast<size_t>(block.bytes));
  }

  std::mutex mutex_;
  std::unordered_map<void*, int64_t> in_use_;
  std::list<Block> by_age_;  // what is kept, the oldest first
  std::multimap<int64_t, std::list<Block>::iterator> by_size_;
  LargeBlockStats stats_{};
};

Blocks& blocks() {
  static auto* const blocks = new Blocks;  // the plugin's threads may outlive static destruction
  return *blocks;
}

}  // namespace

int allocate_large_block(void** out, size_t size) {
  void* data = blocks().allocate(static_cast<int64_t>(size));
  if (data == nullptr) return ENOMEM;
  *out = data;
  return 0;
}

bool keep_large_block(void* block) {
  return reinterpret_cast<uintptr_t>(block) % kLargeBlockAlignment == 0 && blocks().keep(block);
}

int64_t release_large_blocks() { return blocks().release(); }

LargeBlockStats large_block_stats() { return blocks().stats(); }

}  // namespace torch_tpu::pjrt
