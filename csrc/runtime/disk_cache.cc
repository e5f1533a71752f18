#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/log.h"
#include "runtime/metrics.h"

namespace torch_tpu::runtime {
namespace fs = std::filesystem;
namespace {

constexpr char kMagic[8] = {'T', 'T', 'P', 'U', 'C', '0', '0', '1'};
constexpr const char* kSuffix = ".xla";
constexpr const char* kLockFile = ".lock";
// Longer than programs take to compile, unless the process that compiles is stopped.
constexpr std::chrono::minutes kPatience{5};

struct Header {
  char magic[8];
  uint64_t key_size, payload_size, checksum;
};

// FNV-1a over bytes, in two lanes for 128-bit names.
uint64_t fnv(std::string_view bytes, uint64_t seed) {
  uint64_t h = 14695981039346656037ull ^ seed;
  for (unsigned char c : bytes) h = (h ^ c) * 1099511628211ull;
  return h;
}

uint64_t checksum(std::string_view key, std::string_view payload) { return fnv(payload, fnv(key, 0)); }

struct FileDescriptor {
  int fd;
  explicit FileDescriptor(int f) : fd(f) {}
  FileDescriptor(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

bool read_all(int fd, char* out, size_t n) {
  while (n > 0) {
    const ssize_t got = ::read(fd, out, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    n -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const char* data, size_t n) {
  while (n > 0) {
    const ssize_t put = ::write(fd, data, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    data += put;
    n -= static_cast<size_t>(put);
  }
  return true;
}

}  // namespace

DiskCache::DiskCache(fs::path folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes), written_since_check_(max_bytes) {}

std::unique_ptr<DiskCache> DiskCache::from_environment() {
  if (const char* on = std::getenv("TORCH_TPU_CACHE"); on && std::strcmp(on, "0") == 0) return nullptr;
  fs::path folder;
  if (const char* dir = std::getenv("TORCH_TPU_CACHE_DIR"); dir && *dir) {
    folder = dir;
  } else if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) {
    folder = fs::path(xdg) / "torch_tpu";
  } else if (const char* home = std::getenv("HOME"); home && *home) {
    folder = fs::path(home) / ".cache" / "torch_tpu";
  } else {
    return nullptr;
  }
  int64_t max_bytes = int64_t{4} << 30;
  if (const char* cap = std::getenv("TORCH_TPU_CACHE_MAX_BYTES"); cap && *cap) {
    char* end = nullptr;
    const int64_t value = std::strtoll(cap, &end, 10);
    if (*end == '\0' && value >= 0) {
      max_bytes = value;
    } else {
      std::fprintf(stderr, "torch_tpu: TORCH_TPU_CACHE_MAX_BYTES=%s is not a number of bytes; using %lld\n", cap,
                   static_cast<long long>(max_bytes));
    }
  }
  return std::make_unique<DiskCache>(std::move(folder), max_bytes);
}

fs::path DiskCache::path_of(std::string_view key) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(fnv(key, 0)),
                static_cast<unsigned long long>(fnv(key, 0x5bd1e995)));
  return folder_ / (std::string(name) + kSuffix);
}

void DiskCache::complain(const std::string& what) {
  ++metrics().disk_errors;
  // One line a process: a full or read-only folder costs speed, not results.
  if (!complained_.exchange(true))
    std::fprintf(stderr,
                 "torch_tpu: warning: the compilation cache in %s is not usable (%s); programs are compiled "
                 "again in each process. Set TORCH_TPU_CACHE_DIR to a writable folder or TORCH_TPU_CACHE=0.\n",
                 folder_.c_str(), what.c_str());
}

std::optional<std::string> DiskCache::read(std::string_view key) {
  const fs::path path = path_of(key);
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) return std::nullopt;
  struct stat info;
  Header header;
  std::string stored_key, payload;
  bool whole = ::fstat(file.fd, &info) == 0 && read_all(file.fd, reinterpret_cast<char*>(&header), sizeof header) &&
               std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
               header.key_size <= static_cast<uint64_t>(info.st_size) &&  // no overflow of the sum
               static_cast<uint64_t>(info.st_size) == sizeof header + header.key_size + header.payload_size;
  if (whole) {
    stored_key.resize(header.key_size);
    payload.resize(header.payload_size);
    whole = read_all(file.fd, stored_key.data(), stored_key.size()) &&
            read_all(file.fd, payload.data(), payload.size()) && header.checksum == checksum(stored_key, payload);
  }
  if (!whole) {
    ++metrics().disk_errors;
    log("cache", LogLevel::kWarn, "dropped a damaged entry: " + path.string());
    ::unlink(path.c_str());
    return std::nullopt;
  }
  if (stored_key != key) return std::nullopt;  // another program with the same hash keeps its place
  ::futimens(file.fd, nullptr);                // last use, for eviction
  return payload;
}

bool DiskCache::write(std::string_view key, std::string_view payload) {
  if (max_bytes_ == 0) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return complain(error.message()), false;
  const fs::path path = path_of(key);
  std::string temporary = path.string() + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd < 0) return complain(std::strerror(errno)), false;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.payload_size = payload.size();
  header.checksum = checksum(key, payload);
  const bool written = write_all(file.fd, reinterpret_cast<const char*>(&header), sizeof header) &&
                       write_all(file.fd, key.data(), key.size()) && write_all(file.fd, payload.data(), payload.size());
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    complain(std::strerror(errno));
    ::unlink(temporary.c_str());
    return false;
  }
  // The folder is measured at the first write and then each time a sixteenth of the cap has been added.
  if (written_since_check_.fetch_add(static_cast<int64_t>(payload.size() + key.size())) >= max_bytes_ / 16) evict();
  return true;
}

void DiskCache::remove(std::string_view key) { ::unlink(path_of(key).c_str()); }

std::unique_ptr<EntryLock> DiskCache::lock(std::string_view key) const {
  if (max_bytes_ == 0) return nullptr;
  std::error_code error;
  fs::create_directories(folder_, error);  // a failure is write()'s to tell
  return std::make_unique<EntryLock>(folder_ / kLockFile, fnv(key, 0), kPatience);
}

void DiskCache::evict() {
  written_since_check_ = 0;
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    int64_t size;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may delete files meanwhile
    const auto size = static_cast<int64_t>(it->file_size(gone));
    const auto used = gone ? fs::file_time_type{} : it->last_write_time(gone);
    if (gone) continue;
    // Temporary files of processes that died.
    const bool stale = it->path().extension() != kSuffix &&
                       it->path().filename().string().find(std::string(kSuffix) + ".") != std::string::npos &&
                       fs::file_time_type::clock::now() - used > std::chrono::hours(1);
    if (stale) {
      fs::remove(it->path(), gone);
      continue;
    }
    if (it->path().extension() != kSuffix) continue;
    entries.push_back({it->path(), used, size});
    total += size;
  }
  if (total <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  // Down to 7/8, so that the next write does not measure again.
  for (const Entry& e : entries) {
    if (total <= max_bytes_ - max_bytes_ / 8) break;
    std::error_code gone;
    fs::remove(e.path, gone);
    total -= e.size;
  }
}

}  // namespace torch_tpu::runtime
