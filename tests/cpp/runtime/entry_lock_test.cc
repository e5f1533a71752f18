#include "runtime/entry_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

namespace torch_tpu::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kShort{30}, kLong{20000};

class EntryLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "torch_tpu_lock_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    file_ = folder_ / "lock";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A process that holds the lock of entry 1 until it is killed.
  pid_t start_holder() const {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      EntryLock lock(file_, 1, kShort);
      if (!lock.held() || ::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }

  fs::path folder_, file_;
};

TEST_F(EntryLockTest, ExcludesTheSameEntryOnly) {
  {
    EntryLock one(file_, 1, kShort), same(file_, 1, kShort), other(file_, uint64_t{1} << 63, kShort);
    EXPECT_TRUE(one.held());
    EXPECT_FALSE(same.held());
    EXPECT_TRUE(other.held());
  }
  EXPECT_TRUE(EntryLock(file_, 1, kShort).held());
  EXPECT_EQ(fs::file_size(file_), 0u);
}

TEST_F(EntryLockTest, AllNumbersCanBeLocked) {
  for (const uint64_t entry : {uint64_t{0}, ~uint64_t{0}}) EXPECT_TRUE(EntryLock(file_, entry, kShort).held()) << entry;
}

TEST_F(EntryLockTest, OneThreadAtATime) {
  std::atomic<int> inside{0}, most{0}, held{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EntryLock lock(file_, 1, kLong);
        held += lock.held();
        most = std::max(most.load(), ++inside);
        std::this_thread::sleep_for(milliseconds(1));
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(held, 40);
}

TEST_F(EntryLockTest, AHolderThatIsKilledLetsGo) {
  const pid_t holder = start_holder();
  EXPECT_FALSE(EntryLock(file_, 1, kShort).held());
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    ::kill(holder, SIGKILL);
  });
  const auto start = steady_clock::now();
  EXPECT_TRUE(EntryLock(file_, 1, kLong).held());
  EXPECT_LT(steady_clock::now() - start, kLong / 2);
  killer.join();
  ::waitpid(holder, nullptr, 0);
}

TEST_F(EntryLockTest, AHolderThatStandsStillIsNotWaitedForLong) {
  const pid_t holder = start_holder();
  ::kill(holder, SIGSTOP);
  const auto start = steady_clock::now();
  EXPECT_FALSE(EntryLock(file_, 1, kShort).held());
  EXPECT_GE(steady_clock::now() - start, kShort);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

// A child of fork() has the lock's file open and does not keep it locked.
TEST_F(EntryLockTest, ForkedChildrenDoNotKeepIt) {
  auto lock = std::make_unique<EntryLock>(file_, 1, kShort);
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  lock.reset();
  EXPECT_TRUE(EntryLock(file_, 1, kShort).held());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(EntryLockTest, WhereThereCanBeNone) {
  const auto start = steady_clock::now();
  EXPECT_FALSE(EntryLock(folder_ / "missing" / "lock", 1, kLong).held());
  EXPECT_FALSE(EntryLock("/dev/null/lock", 1, kLong).held());
  EXPECT_FALSE(EntryLock(folder_, 1, kLong).held());  // a folder
  EXPECT_LT(steady_clock::now() - start, kLong / 2);
}

}  // namespace
}  // namespace torch_tpu::runtime
