// A lock across processes on one entry of the disk cache: who holds it compiles, the others wait for the entry.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

namespace torch_tpu::runtime {

// A byte of one file that is always empty, by the entry's number: nothing piles up, and the kernel lets go of the lock
// when its process dies. The lock belongs to this object (an open file description), so threads exclude each other,
// too. It keeps nobody from reading or writing entries: where there can be no lock (a folder that is read-only, a file
// system without locks, a holder that takes too long), held() is false and the caller goes on without.
class EntryLock {
 public:
  EntryLock(const std::filesystem::path& file, uint64_t entry, std::chrono::milliseconds patience);
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;
  ~EntryLock();

  bool held() const { return held_; }

 private:
  int fd_;
  uint64_t entry_;
  bool held_ = false;
};

}  // namespace torch_tpu::runtime
