#include "pjrt/imports.h"

#include <vector>

#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

TEST(Imports, AllOrNone) {
  const Import imports[] = {{"free", nullptr}, {"no_such_function_anywhere", nullptr}};
  EXPECT_FALSE(replace_imports(cpu_plugin_path(), imports));
  EXPECT_EQ(download(upload({1, 2, 3}, {3})), (std::vector<float>{1, 2, 3}));  // free is what it was
  EXPECT_FALSE(replace_imports("/no/such/library.so", {}));
}

}  // namespace
}  // namespace torch_tpu::pjrt
