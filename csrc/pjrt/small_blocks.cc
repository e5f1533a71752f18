#include "pjrt/small_blocks.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>

namespace torch_tpu::pjrt {
namespace {

// Addresses are reserved once; the system gives memory to those that are written.
constexpr size_t kRoom = size_t{256} << 20;
// All blocks of a span are of one class, so that an address tells the class.
constexpr size_t kSpan = size_t{64} << 10;
constexpr size_t kClasses = kLargestSmallBlock / kSmallBlockAlignment;

// Held for a few instructions, ten times in a small call: a mutex costs twice as much.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

class SmallBlocks {
 public:
  SmallBlocks() {
    void* room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return;
    // The system's pages are coarser than the alignment.
    room_ = static_cast<char*>(room);
    spans_ = kRoom / kSpan;
  }

  // `size` is 1 to kLargestSmallBlock.
  void* allocate(size_t size) {
    const size_t number = (size - 1) / kSmallBlockAlignment;
    SizeClass& c = classes_[number];
    std::lock_guard lock(c.spin);
    if (c.freed != nullptr) {
      Freed* block = c.freed;
      c.freed = block->next;
      return block;
    }
    const size_t bytes = (number + 1) * kSmallBlockAlignment;
    if (c.left < bytes && !add_span(c, number)) return nullptr;
    char* block = c.next;
    c.next += bytes;
    c.left -= bytes;
    return block;
  }

  bool free(void* block) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(room_);
    if (offset >= spans_ * kSpan) return false;
    SizeClass& c = classes_[class_of_span_[offset / kSpan]];
    std::lock_guard lock(c.spin);
    c.freed = new (block) Freed{c.freed};
    return true;
  }

 private:
  struct Freed {
    Freed* next;
  };
  struct alignas(64) SizeClass {
    SpinLock spin;
    Freed* freed = nullptr;  // the last one first: its memory is in the processor's cache
    char* next = nullptr;    // what was never used of the class's last span
    size_t left = 0;
  };

  bool add_span(SizeClass& c, size_t number) {
    std::lock_guard lock(spans_mutex_);
    if (used_spans_ == spans_) return false;
    class_of_span_[used_spans_] = static_cast<uint8_t>(number);
    c.next = room_ + kSpan * used_spans_++;
    c.left = kSpan;
    return true;
  }

  char* room_ = nullptr;
  size_t spans_ = 0, used_spans_ = 0;
  std::mutex spans_mutex_;
  // Written before a block of the span is given out, and never again.
  std::array<uint8_t, kRoom / kSpan> class_of_span_{};
  std::array<SizeClass, kClasses> classes_;
};

SmallBlocks& blocks() {
  static auto* const blocks = new SmallBlocks;  // the plugin's threads may outlive static destruction
  return *blocks;
}

}  // namespace

void* allocate_small_block(size_t size, size_t alignment) {
  if (size == 0 || size > kLargestSmallBlock || alignment > kSmallBlockAlignment) return nullptr;
  return blocks().allocate(size);
}

bool free_small_block(void* block) { return blocks().free(block); }

}  // namespace torch_tpu::pjrt
