#include "pjrt/topology.h"

#include <cstdlib>

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

// Ahead-of-time compilation for TPUs, on a machine without one.
class TopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (libtpu_path().empty()) GTEST_SKIP() << "TORCH_TPU_TEST_LIBTPU names no file: pip install libtpu";
    // Otherwise libtpu asks a metadata server for minutes, and two processes cannot use it at once.
    setenv("TPU_SKIP_MDS_QUERY", "1", 0);
    setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
    setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 0);
    setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
    setenv("TPU_MIN_LOG_LEVEL", "3", 0);
    plugin_ = Plugin::load(libtpu_path());
  }

  std::shared_ptr<Plugin> plugin_;
};

TEST_F(TopologyTest, Description) {
  const auto topology = Topology::create(plugin_, "v6e:2x2x1");
  EXPECT_EQ(topology->name(), "v6e:2x2x1");
  EXPECT_EQ(topology->platform_name(), "tpu");
  EXPECT_FALSE(topology->platform_version().empty());
  EXPECT_EQ(topology->device_count(), 4u);
  EXPECT_PRED2(contains, topology->device_kind(), "TPU v6");
}

TEST_F(TopologyTest, Compile) {
  const auto topology = Topology::create(plugin_, "v6e:2x2x1");
  const auto program = topology->compile(kAdd, CompileOptions{}.serialize());
  EXPECT_EQ(program->num_outputs(), 1u);
  EXPECT_GT(program->cost_analysis().at("flops"), 0);
  const auto memory = program->compiled_memory_stats();
  ASSERT_TRUE(memory.has_value());
  EXPECT_GT(memory->generated_code, 0);
  EXPECT_GT(memory->outputs, 0);
  EXPECT_GT(program->serialize().size(), 100u);
}

TEST_F(TopologyTest, CompileForFourDevices) {
  const auto topology = Topology::create(plugin_, "v6e:2x2x1");
  CompileOptions options;
  options.num_replicas = 4;
  options.device_assignment = {0, 1, 2, 3};
  EXPECT_EQ(topology->compile(kAdd, options.serialize())->num_outputs(), 1u);
}

TEST_F(TopologyTest, Errors) {
  try {
    Topology::create(plugin_, "v99:1x1");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_PRED2(contains, error.what(), "v99:1x1");
  }
  const auto topology = Topology::create(plugin_, "v5e:2x2x1");
  EXPECT_THROW(topology->compile("no module", CompileOptions{}.serialize()), Error);
}

}  // namespace
}  // namespace torch_tpu::pjrt
