// The second cache level: serialized executables as files, shared by processes.
//
// An entry's file name is a hash of its key; the file holds the whole key, which is compared on reading, and a
// checksum. Entries are written to a temporary name and renamed, so readers see whole files only. A damaged or foreign
// entry is deleted and counts as absent. When the folder outgrows its cap, the least recently used files go first.
// Nothing here throws for I/O reasons: a cache that cannot be used says so once and then stays out of the way.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/entry_lock.h"

namespace torch_tpu::runtime {

class DiskCache {
 public:
  DiskCache(std::filesystem::path folder, int64_t max_bytes);

  std::optional<std::string> read(std::string_view key);
  // False when the entry could not be stored.
  bool write(std::string_view key, std::string_view payload);
  // Forgets an entry whose payload the plugin refused.
  void remove(std::string_view key);
  // For who is going to compile: waits while another process or thread compiles for the same key. Read again then. Null
  // where nothing is stored.
  std::unique_ptr<EntryLock> lock(std::string_view key) const;

  const std::filesystem::path& folder() const { return folder_; }

  // From TORCH_TPU_CACHE, TORCH_TPU_CACHE_DIR, TORCH_TPU_CACHE_MAX_BYTES; null when turned off.
  static std::unique_ptr<DiskCache> from_environment();

 private:
  std::filesystem::path path_of(std::string_view key) const;
  void evict();
  void complain(const std::string& what);

  std::filesystem::path folder_;
  int64_t max_bytes_;
  std::atomic<int64_t> written_since_check_;
  std::atomic<bool> complained_{false};
};

}  // namespace torch_tpu::runtime
