#include "runtime/entry_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "runtime/log.h"

namespace torch_tpu::runtime {
namespace {

bool set_lock(int fd, short type, uint64_t entry) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(entry >> 2);  // so that start and length are an off_t
  range.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0;
}

}  // namespace

EntryLock::EntryLock(const std::filesystem::path& file, uint64_t entry, std::chrono::milliseconds patience)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), entry_(entry) {
  using clock = std::chrono::steady_clock;
  if (fd_ < 0) return;
  const auto limit = clock::now() + patience;
  // The call that waits cannot be told for how long.
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(8))) {
    held_ = set_lock(fd_, F_WRLCK, entry_);
    if (held_ || (errno != EAGAIN && errno != EACCES && errno != EINTR)) return;
    if (clock::now() >= limit) {
      log("cache", LogLevel::kWarn, "another process is taking long to compile a program; not waiting for it");
      return;
    }
    std::this_thread::sleep_for(pause);
  }
}

EntryLock::~EntryLock() {
  if (fd_ < 0) return;
  // Closing alone would leave the lock with a child of fork(), which has the file open, too.
  if (held_) set_lock(fd_, F_UNLCK, entry_);
  ::close(fd_);
}

}  // namespace torch_tpu::runtime
