#include "pjrt/error.h"

#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

TEST(Error, BadModuleGivesTextAndCode) {
  try {
    cpu_client()->compile("module @m { this is no program }", portable_options());
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string what = "compiling a program: ";
    const std::string tail = std::string(" [") + code_name(error.code()) + "]";
    const std::string_view text = error.what();
    EXPECT_NE(error.code(), PJRT_Error_Code_OK);
    EXPECT_TRUE(text.starts_with(what)) << text;
    EXPECT_TRUE(text.ends_with(tail)) << text;
    EXPECT_GT(text.size(), what.size() + tail.size());  // the plugin's own text is in between
  }
}

TEST(Error, DamagedSerializedProgram) { EXPECT_THROW(cpu_client()->deserialize("not an executable"), Error); }

TEST(Error, TooLargeOutputIsReportedByExecute) {
  auto program = cpu_client()->compile(R"(
    module @huge {
      func.func public @main(%a: tensor<f32>) -> tensor<50000000000000xf32> {
        %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<50000000000000xf32>
        return %0 : tensor<50000000000000xf32>
      }
    })",
                                       portable_options());
  const Buffer one = upload({1}, {});
  try {
    run(*program, {one.get()});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PJRT_Error_Code_RESOURCE_EXHAUSTED);
    EXPECT_PRED2(contains, error.what(), "Out of memory");
  }
}

TEST(Error, FailureOfARunReachesItsReadersAndTheirs) {
  auto program = cpu_client()->compile(kHugeTemporary, portable_options());
  auto twice = cpu_client()->compile(R"(
    module @twice {
      func.func public @main(%a: tensor<1xf32>) -> tensor<1xf32> {
        %0 = stablehlo.add %a, %a : tensor<1xf32>
        return %0 : tensor<1xf32>
      }
    })",
                                     portable_options());
  const Buffer one = upload({1}, {});
  const Buffer failed = run(*program, {one.get()});
  EXPECT_THROW(failed.ready_event().await(), Error);
  try {
    const Buffer next = run(*twice, {failed.get()});
    next.ready_event().await();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_PRED2(contains, error.what(), "Out of memory");
  }
  // The client survives.
  auto add = cpu_client()->compile(kAdd, portable_options());
  const Buffer ones = upload({1, 1, 1, 1, 1, 1}, {2, 3});
  EXPECT_EQ(download(run(*add, {ones.get(), ones.get()})), std::vector<float>(6, 2));
}

TEST(Error, CodeNames) {
  EXPECT_STREQ(code_name(PJRT_Error_Code_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  EXPECT_STREQ(code_name(static_cast<PJRT_Error_Code>(99)), "UNKNOWN_CODE");
}

}  // namespace
}  // namespace torch_tpu::pjrt
