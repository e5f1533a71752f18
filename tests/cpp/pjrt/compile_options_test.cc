#include "pjrt/compile_options.h"

#include <stdexcept>

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

std::string hex(const std::string& bytes) {
  std::string text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(CompileOptions, OneDevice) {
  // build options {device_ordinal: -1, num_replicas: 1, num_partitions: 1}
  EXPECT_EQ(hex(CompileOptions{}.serialize()),
            "1a0f"
            "08ffffffffffffffffff01"
            "2001"
            "2801");
}

TEST(CompileOptions, Portable) {
  EXPECT_EQ(hex(portable_options()),
            "1a0f"
            "08ffffffffffffffffff01"
            "2001"
            "2801"
            "2001");
}

TEST(CompileOptions, DeviceAssignment) {
  CompileOptions options;
  options.num_replicas = 2;
  options.num_partitions = 2;
  options.use_spmd_partitioning = true;
  options.device_assignment = {0, 1, 2, 300};  // replica 0 on 0 and 1, replica 1 on 2 and 300
  EXPECT_EQ(hex(options.serialize()),
            "1a24"
            "08ffffffffffffffffff01"
            "2002"
            "2802"
            "3001"
            "4a11"
            "0802"
            "1002"
            "1a04"
            "0a020002"
            "1a05"
            "0a0301ac02");
}

TEST(CompileOptions, OverridesAreSortedAndTyped) {
  CompileOptions options;
  options.env_overrides["b"] = int64_t{5};
  options.env_overrides["a"] = false;
  options.env_overrides["c"] = std::string("x");
  options.env_overrides["d"] = 1.0;
  EXPECT_EQ(hex(options.serialize()),
            "1a0f"
            "08ffffffffffffffffff01"
            "2001"
            "2801"
            "3a07"
            "0a0161"
            "12021000"
            "3a07"
            "0a0162"
            "12021805"
            "3a08"
            "0a0163"
            "12030a0178"
            "3a0e"
            "0a0164"
            "120921000000000000f03f");
}

TEST(CompileOptions, Contradictions) {
  CompileOptions options;
  options.num_replicas = 2;
  options.portable = true;
  EXPECT_THROW(options.serialize(), std::invalid_argument);
  options.portable = false;
  options.device_assignment = {0};
  EXPECT_THROW(options.serialize(), std::invalid_argument);
  options.num_replicas = 0;
  EXPECT_THROW(options.serialize(), std::invalid_argument);
}

TEST(CompileOptions, PluginTakesKnownOverridesAndRefusesUnknown) {
  CompileOptions options;
  options.env_overrides["xla_allow_excess_precision"] = false;
  EXPECT_NO_THROW(cpu_client()->compile(kAdd, options.serialize()));
  options.env_overrides["xla_no_such_flag"] = true;
  EXPECT_THROW(cpu_client()->compile(kAdd, options.serialize()), Error);
}

}  // namespace
}  // namespace torch_tpu::pjrt
