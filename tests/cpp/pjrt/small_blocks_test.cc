#include "pjrt/small_blocks.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "pjrt/plugin_memory.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

void* allocate(size_t size) { return allocate_small_block(size, kSmallBlockAlignment); }

TEST(SmallBlocks, AreAlignedAndApart) {
  std::vector<std::pair<char*, size_t>> blocks;
  for (size_t size = 1; size <= kLargestSmallBlock; size += 61) {
    auto* block = static_cast<char*>(allocate(size));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kSmallBlockAlignment, 0u);
    std::memset(block, static_cast<int>(size % 251), size);
    blocks.emplace_back(block, size);
  }
  for (const auto& [block, size] : blocks) {
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(static_cast<unsigned char>(block[i]), size % 251) << size;
    EXPECT_TRUE(free_small_block(block));
  }
}

TEST(SmallBlocks, AFreedBlockIsUsedAgainForItsClass) {
  void* const first = allocate(100);
  EXPECT_TRUE(free_small_block(first));
  void* const other = allocate(129);  // the next class
  EXPECT_NE(other, first);
  void* const again = allocate(128);
  EXPECT_EQ(again, first);
  EXPECT_TRUE(free_small_block(other));
  EXPECT_TRUE(free_small_block(again));
}

TEST(SmallBlocks, OthersAreNotTheirs) {
  EXPECT_EQ(allocate(0), nullptr);
  EXPECT_EQ(allocate(kLargestSmallBlock + 1), nullptr);
  EXPECT_EQ(allocate_small_block(64, 2 * kSmallBlockAlignment), nullptr);
  void* const foreign = std::malloc(64);
  EXPECT_FALSE(free_small_block(foreign));
  std::free(foreign);
  EXPECT_FALSE(free_small_block(nullptr));
}

TEST(SmallBlocks, ManySpans) {
  std::set<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.insert(allocate(kLargestSmallBlock));  // 16 in a span
  EXPECT_EQ(blocks.size(), 100u);
  for (void* block : blocks) EXPECT_TRUE(free_small_block(block));
}

// What one thread allocates another may free.
TEST(SmallBlocks, Threads) {
  constexpr int kThreads = 4, kBlocks = 2000;
  std::vector<std::vector<uint64_t*>> made(kThreads);
  const auto on_threads = [&](auto body) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(body, t);
    for (std::thread& t : threads) t.join();
  };
  for (int round = 0; round < 5; ++round) {
    on_threads([&](int t) {
      for (int i = 0; i < kBlocks; ++i) {
        made[t].push_back(static_cast<uint64_t*>(allocate(64)));
        *made[t].back() = static_cast<uint64_t>(t) << 32 | static_cast<uint64_t>(i);
      }
    });
    on_threads([&](int t) {
      auto& mine = made[(t + 1) % kThreads];
      for (int i = 0; i < kBlocks; ++i) {
        EXPECT_EQ(*mine[i], static_cast<uint64_t>((t + 1) % kThreads) << 32 | static_cast<uint64_t>(i));
        EXPECT_TRUE(free_small_block(mine[i]));
      }
      mine.clear();
    });
  }
}

TEST(SmallBlocks, AreThePluginsArrays) {
  if (!cpu_client()->can_create_uninitialized()) GTEST_SKIP() << "the plugin makes no uninitialized buffers";
  ASSERT_TRUE(keep_blocks(cpu_client()->plugin()));
  const auto make = [](int64_t bytes) {
    Buffer b = cpu_client()->create_uninitialized_buffer(ElementType::kU8, std::vector<int64_t>{bytes}, device(0));
    b.ready_event().await();
    return b;
  };
  const void* first = nullptr;
  {
    const Buffer b = make(kLargestSmallBlock);
    first = b.unsafe_host_pointer();
  }
  EXPECT_EQ(allocate(kLargestSmallBlock), first);
  EXPECT_TRUE(free_small_block(const_cast<void*>(first)));
  const Buffer larger = make(kLargestSmallBlock + 1);
  EXPECT_FALSE(free_small_block(larger.unsafe_host_pointer()));
}

}  // namespace
}  // namespace torch_tpu::pjrt
