#include "runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "runtime/metrics.h"

namespace torch_tpu::runtime {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kRoomy = int64_t{1} << 30;

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "torch_tpu_cache_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }
  static std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void replace(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  static void set_last_use(const fs::path& path, int hours_ago) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }

  fs::path folder_;
};

TEST_F(DiskCacheTest, RoundTrip) {
  DiskCache cache(folder_ / "made" / "on" / "demand", kRoomy);
  EXPECT_EQ(cache.read("key"), std::nullopt);
  const std::string payload("\0binary\xff", 8), key("module\0text", 11);
  EXPECT_TRUE(cache.write(key, payload));
  EXPECT_TRUE(cache.write("empty", ""));
  EXPECT_EQ(cache.read(key), payload);
  EXPECT_EQ(cache.read("empty"), "");
  EXPECT_EQ(cache.read("other"), std::nullopt);
  DiskCache another(cache.folder(), kRoomy);
  EXPECT_EQ(another.read(key), payload);
}

TEST_F(DiskCacheTest, OverwritesAndRemoves) {
  DiskCache cache(folder_, kRoomy);
  cache.write("key", "one");
  cache.write("key", "two");
  EXPECT_EQ(cache.read("key"), "two");
  EXPECT_EQ(files().size(), 1u);
  cache.remove("key");
  EXPECT_EQ(cache.read("key"), std::nullopt);
  EXPECT_TRUE(files().empty());
}

TEST_F(DiskCacheTest, AFlippedBitAnywhereDropsTheEntry) {
  DiskCache cache(folder_, kRoomy);
  const std::string key = "a key", payload = "a payload";
  cache.write(key, payload);
  const fs::path file = files().at(0);
  const std::string good = contents(file);
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit : {0, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      replace(file, bad);
      const int64_t errors = metrics().disk_errors;
      EXPECT_EQ(cache.read(key), std::nullopt) << "byte " << i << " bit " << bit;
      EXPECT_FALSE(fs::exists(file)) << "byte " << i << " bit " << bit;
      EXPECT_EQ(metrics().disk_errors, errors + 1);
    }
  }
  EXPECT_TRUE(cache.write(key, payload));
  EXPECT_EQ(cache.read(key), payload);
}

TEST_F(DiskCacheTest, TruncatedOrGrownFilesAreDropped) {
  DiskCache cache(folder_, kRoomy);
  cache.write("key", "payload");
  const fs::path file = files().at(0);
  const std::string good = contents(file);
  for (size_t n = 0; n < good.size(); ++n) {
    replace(file, good.substr(0, n));
    EXPECT_EQ(cache.read("key"), std::nullopt) << n;
    EXPECT_FALSE(fs::exists(file)) << n;
  }
  replace(file, good + "x");
  EXPECT_EQ(cache.read("key"), std::nullopt);
}

// Sizes that overflow when they are added up must not be believed.
TEST_F(DiskCacheTest, AbsurdSizesAreDropped) {
  DiskCache cache(folder_, kRoomy);
  cache.write("key", "payload");
  const fs::path file = files().at(0);
  std::string bytes = contents(file);
  const uint64_t key_size = uint64_t{1} << 60, payload_size = 10 - key_size;
  std::memcpy(bytes.data() + 8, &key_size, 8);
  std::memcpy(bytes.data() + 16, &payload_size, 8);
  replace(file, bytes);
  EXPECT_EQ(cache.read("key"), std::nullopt);
}

// Two keys with one file name: the entry there belongs to the other key and stays.
TEST_F(DiskCacheTest, ForeignKeysAreNotReturned) {
  DiskCache cache(folder_, kRoomy);
  cache.write("mine", "my payload");
  const fs::path mine = files().at(0);
  cache.write("theirs", "their payload");
  const fs::path theirs = files().at(0) == mine ? files().at(1) : files().at(0);
  fs::copy_file(theirs, mine, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.read("mine"), std::nullopt);
  EXPECT_TRUE(fs::exists(mine));
  EXPECT_EQ(cache.read("theirs"), "their payload");
}

TEST_F(DiskCacheTest, AFolderThatCannotBeUsedIsNoError) {
  const int64_t errors = metrics().disk_errors;
  replace(folder_ / "file", "in the way");
  DiskCache blocked(folder_ / "file" / "below", kRoomy);
  EXPECT_FALSE(blocked.write("key", "payload"));
  EXPECT_FALSE(blocked.write("key", "payload"));
  EXPECT_EQ(blocked.read("key"), std::nullopt);
  EXPECT_GT(metrics().disk_errors, errors);
}

TEST_F(DiskCacheTest, AReadOnlyFolderServesButDoesNotStore) {
  DiskCache cache(folder_, kRoomy);
  cache.write("old", "payload");
  // Permissions do not bind root, so a child gives its rights up first; entries are private, so this one is opened to
  // it.
  ASSERT_EQ(::chmod(files().at(0).c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(0);
    DiskCache reader(folder_, kRoomy);
    ::_exit(reader.read("old") == "payload" && !reader.write("new", "payload") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(cache.read("new"), std::nullopt);
}

TEST_F(DiskCacheTest, AFullDiskLeavesNothingBehind) {
  // A file size limit stands in for a full disk; it raises SIGXFSZ unless ignored, so a child process takes it.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    DiskCache cache(folder_, kRoomy);
    const bool refused = !cache.write("key", std::string(100000, 'x'));
    ::_exit(refused && cache.write("small", "fits") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoFirst) {
  const std::string payload(1000, 'x');
  {
    DiskCache roomy(folder_, kRoomy);
    for (int i = 0; i < 10; ++i) roomy.write("key" + std::to_string(i), payload);
  }
  // All are old, key3 the oldest by writing but read just now.
  for (const fs::path& file : files()) set_last_use(file, 2);
  DiskCache capped(folder_, 6000);
  EXPECT_EQ(capped.read("key3"), payload);
  EXPECT_TRUE(capped.write("newest", payload));
  int64_t total = 0;
  for (const fs::path& file : files()) total += static_cast<int64_t>(fs::file_size(file));
  EXPECT_LE(total, 6000);
  EXPECT_GE(files().size(), 4u);
  EXPECT_EQ(capped.read("key3"), payload);
  EXPECT_EQ(capped.read("newest"), payload);
}

TEST_F(DiskCacheTest, StaysUnderItsCapOverManyWrites) {
  DiskCache cache(folder_, 20000);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(cache.write("key" + std::to_string(i), std::string(500, 'x')));
  int64_t total = 0;
  for (const fs::path& file : files()) total += static_cast<int64_t>(fs::file_size(file));
  EXPECT_LE(total, 20000 + 20000 / 8);
  EXPECT_TRUE(cache.read("key199").has_value());
}

TEST_F(DiskCacheTest, ACapOfZeroStoresNothing) {
  DiskCache cache(folder_, 0);
  EXPECT_FALSE(cache.write("key", "payload"));
  EXPECT_TRUE(files().empty());
}

TEST_F(DiskCacheTest, LeftoversOfDeadWritersAreCleared) {
  const fs::path stale = folder_ / "0123.xla.AbCdEf", fresh = folder_ / "4567.xla.AbCdEf", foreign = folder_ / "notes";
  for (const fs::path& p : {stale, fresh, foreign}) replace(p, "x");
  set_last_use(stale, 2);
  set_last_use(foreign, 2);
  DiskCache cache(folder_, kRoomy);
  cache.write("key", "payload");
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST_F(DiskCacheTest, WritersAndReadersOfOneEntry) {
  std::atomic<int> wrong = 0;
  const std::string one(100000, '1'), two(100000, '2');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DiskCache cache(folder_, kRoomy);  // as another process has
      for (int i = 0; i < 100; ++i) {
        if (t < 2) {
          if (!cache.write("key", t == 0 ? one : two)) ++wrong;
        } else if (auto payload = cache.read("key"); payload && *payload != one && *payload != two) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files().size(), 1u);
}

// Processes killed at any moment leave whole entries, and nothing that stands in the way of the next.
TEST_F(DiskCacheTest, WritersThatAreKilled) {
  constexpr int kKeys = 5;
  const auto payload = [](int key) { return std::string(200000 + static_cast<size_t>(key), static_cast<char>(key)); };
  const auto leftovers = [&] {
    int64_t n = 0;
    for (const fs::path& file : files()) n += file.filename().string().find(".xla.") != std::string::npos;
    return n;
  };
  const int64_t errors = metrics().disk_errors;
  DiskCache cache(folder_, kRoomy);
  int64_t found = 0;
  std::mt19937 random(0);
  for (int round = 0; round < 50; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      DiskCache writer(folder_, kRoomy);
      for (int i = round;; ++i) {
        const std::string key = "key" + std::to_string(i % kKeys);
        const auto lock = writer.lock(key);
        writer.remove(key);
        writer.write(key, payload(i % kKeys));
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(5000 + random() % 20000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < kKeys; ++k) {
      const std::string key = "key" + std::to_string(k);
      EXPECT_TRUE(cache.lock(key)->held());
      const auto read = cache.read(key);
      if (read) {
        EXPECT_EQ(*read, payload(k));
      }
      found += read.has_value();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  EXPECT_EQ(metrics().disk_errors, errors);
  EXPECT_GT(found, 0);
  EXPECT_GT(leftovers(), 0) << "no process was killed while it wrote";
  for (const fs::path& file : files()) set_last_use(file, 2);
  DiskCache(folder_, kRoomy).write("last", "payload");
  EXPECT_EQ(leftovers(), 0);
}

// Sets variables for one test.
class Environment {
 public:
  void set(const char* name, const std::string& value) {
    saved_.emplace_back(name, std::getenv(name) ? std::optional<std::string>(std::getenv(name)) : std::nullopt);
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : saved_) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  }

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> saved_;
};

TEST_F(DiskCacheTest, EnvironmentChoosesTheFolder) {
  Environment environment;
  environment.set("TORCH_TPU_CACHE", "");
  environment.set("TORCH_TPU_CACHE_MAX_BYTES", "");
  environment.set("HOME", "/home/somebody");
  environment.set("XDG_CACHE_HOME", "");
  environment.set("TORCH_TPU_CACHE_DIR", "");
  EXPECT_EQ(DiskCache::from_environment()->folder(), "/home/somebody/.cache/torch_tpu");
  environment.set("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(DiskCache::from_environment()->folder(), "/caches/torch_tpu");
  environment.set("TORCH_TPU_CACHE_DIR", folder_.string());
  EXPECT_EQ(DiskCache::from_environment()->folder(), folder_);
  environment.set("TORCH_TPU_CACHE", "0");
  EXPECT_EQ(DiskCache::from_environment(), nullptr);
}

TEST_F(DiskCacheTest, EnvironmentSetsTheCap) {
  Environment environment;
  environment.set("TORCH_TPU_CACHE", "1");
  environment.set("TORCH_TPU_CACHE_DIR", folder_.string());
  environment.set("TORCH_TPU_CACHE_MAX_BYTES", "0");
  EXPECT_FALSE(DiskCache::from_environment()->write("key", "payload"));
  environment.set("TORCH_TPU_CACHE_MAX_BYTES", "a lot");  // says so, and takes the default
  EXPECT_TRUE(DiskCache::from_environment()->write("key", "payload"));
}

}  // namespace
}  // namespace torch_tpu::runtime
