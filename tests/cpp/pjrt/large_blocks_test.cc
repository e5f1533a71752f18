#include "pjrt/large_blocks.h"

#include <set>

#include "pjrt/plugin_memory.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

constexpr int64_t kLargeBlock = kSmallestLargeBlock;
constexpr int64_t kBytes = 2 * kLargeBlock;

Buffer block(int64_t bytes) {
  Buffer b = cpu_client()->create_uninitialized_buffer(ElementType::kU8, std::vector<int64_t>{bytes}, device(0));
  b.ready_event().await();
  return b;
}

class LargeBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_client()->can_create_uninitialized()) GTEST_SKIP() << "the plugin makes no uninitialized buffers";
    ASSERT_TRUE(keep_blocks(cpu_client()->plugin()));
    release_large_blocks();
  }
};

TEST_F(LargeBlocks, AFreedBlockIsUsedAgain) {
  const void* first = nullptr;
  {
    const Buffer b = block(kBytes);
    first = b.unsafe_host_pointer();
    EXPECT_EQ(large_block_stats().in_use, kBytes);
  }
  EXPECT_EQ(large_block_stats().in_use, 0);
  EXPECT_EQ(large_block_stats().kept, kBytes);
  const Buffer again = block(kBytes - 1000);
  EXPECT_EQ(again.unsafe_host_pointer(), first);
  EXPECT_EQ(large_block_stats().in_use, kBytes);
  EXPECT_EQ(large_block_stats().kept, 0);
}

TEST_F(LargeBlocks, NotForMuchLessNorForMore) {
  const void* first = nullptr;
  {
    const Buffer b = block(kBytes);
    first = b.unsafe_host_pointer();
  }
  const Buffer less = block(kBytes / 2);
  EXPECT_NE(less.unsafe_host_pointer(), first);
  const Buffer more = block(kBytes + 4096);
  EXPECT_NE(more.unsafe_host_pointer(), first);
}

TEST_F(LargeBlocks, AQuarterMoreThanWasOnceInUseAtMost) {
  for (int64_t i = 0; i < 12; ++i) block(kBytes + i * kBytes / 2);  // none fits the next
  const LargeBlockStats stats = large_block_stats();
  EXPECT_LE(stats.in_use + stats.kept, stats.peak_in_use * 5 / 4);
  EXPECT_GT(stats.kept, 0);
}

TEST_F(LargeBlocks, OfEqualsTheLastOneFreed) {
  const void* last = nullptr;
  {
    const Buffer one = block(kBytes), other = block(kBytes);
    last = one.unsafe_host_pointer();  // freed in the reverse order of their making
  }
  EXPECT_EQ(block(kBytes).unsafe_host_pointer(), last);
}

TEST_F(LargeBlocks, ManyOfManySizes) {
  for (int round = 0; round < 3; ++round) {
    std::vector<Buffer> buffers;
    int64_t bytes = 0;
    for (int64_t i = 0; i < 64; ++i) {
      buffers.push_back(block(kLargeBlock + i % 7 * kLargeBlock / 2));
      bytes += kLargeBlock + i % 7 * kLargeBlock / 2;
    }
    EXPECT_GE(large_block_stats().in_use, bytes);
    std::set<const void*> distinct;
    for (const Buffer& b : buffers) distinct.insert(b.unsafe_host_pointer());
    EXPECT_EQ(distinct.size(), buffers.size());
  }
  EXPECT_EQ(large_block_stats().in_use, 0);
  const int64_t kept = large_block_stats().kept;
  EXPECT_EQ(release_large_blocks(), kept);
}

TEST_F(LargeBlocks, Release) {
  block(kBytes);
  EXPECT_EQ(release_large_blocks(), kBytes);
  EXPECT_EQ(large_block_stats().kept, 0);
  EXPECT_EQ(release_large_blocks(), 0);
}

TEST_F(LargeBlocks, SmallOnesAreNotTheirs) {
  block(kLargeBlock / 2);
  EXPECT_EQ(large_block_stats().kept, 0);
}

TEST_F(LargeBlocks, AFailedAllocationGivesBackWhatIsKept) {
  block(kBytes);
  EXPECT_THROW(block(int64_t{1} << 47), Error);
  EXPECT_EQ(large_block_stats().kept, 0);
  EXPECT_EQ(large_block_stats().in_use, 0);
}

}  // namespace
}  // namespace torch_tpu::pjrt
