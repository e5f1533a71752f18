#include "pjrt/plugin.h"

#include <cstddef>
#include <fstream>

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

std::string load_error(const std::string& path) {
  try {
    Plugin::load(path);
  } catch (const PluginError& error) {
    return error.what();
  }
  return "";
}

PJRT_Error* unused_dimensions(PJRT_Executable_OutputDimensions_Args*) { return nullptr; }

// As a plugin of this header's age would fill it, as far as check_api looks.
PJRT_Api fake_api() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  api.PJRT_Executable_OutputDimensions = unused_dimensions;
  return api;
}

TEST(Plugin, MissingFileSaysWhatToInstall) {
  const std::string text = load_error("/nowhere/plugin.so");
  EXPECT_PRED2(contains, text, "/nowhere/plugin.so");
  EXPECT_PRED2(contains, text, "pip install xla-cpu-pjrt");
}

TEST(Plugin, FileThatIsNoLibrary) {
  const std::string path = ::testing::TempDir() + "no_library.so";
  std::ofstream(path) << "text";
  EXPECT_PRED2(contains, load_error(path), "Cannot load the PJRT plugin");
}

TEST(Plugin, LibraryThatIsNoPlugin) { EXPECT_PRED2(contains, load_error("/proc/self/exe"), "PJRT plugin"); }

TEST(Plugin, LoadedOnce) {
  const auto plugin = Plugin::load(cpu_plugin_path());
  EXPECT_EQ(plugin, Plugin::load(cpu_plugin_path()));
  EXPECT_EQ(plugin->major_version(), 0);
  EXPECT_GT(plugin->minor_version(), 0);
  EXPECT_EQ(plugin->api_version(), "0." + std::to_string(plugin->minor_version()));
  EXPECT_TRUE(plugin->attributes().contains("xla_version"));
}

TEST(Plugin, Extensions) {
  const auto plugin = Plugin::load(cpu_plugin_path());
  const auto* ffi = plugin->find_extension<PJRT_Extension_Base>(PJRT_Extension_Type_FFI);
  ASSERT_NE(ffi, nullptr);
  EXPECT_EQ(ffi->type, PJRT_Extension_Type_FFI);
  EXPECT_EQ(plugin->find_extension<PJRT_Extension_Base>(PJRT_Extension_Type_Example), nullptr);
}

TEST(Plugin, ShortTableHidesNewFunctions) {
  PJRT_Api api = fake_api();
  EXPECT_TRUE(has_function(api, &PJRT_Api::PJRT_Executable_OutputDimensions));
  api.struct_size = offsetof(PJRT_Api, PJRT_Executable_OutputDimensions);
  EXPECT_FALSE(has_function(api, &PJRT_Api::PJRT_Executable_OutputDimensions));
  EXPECT_FALSE(has_function(fake_api(), &PJRT_Api::PJRT_Client_DmaMap));  // reached, but null
}

TEST(Plugin, VersionCheck) {
  PJRT_Api api = fake_api();
  EXPECT_NO_THROW(check_api(&api, "p.so"));
  api.pjrt_api_version.minor_version = PJRT_API_MINOR + 40;
  EXPECT_NO_THROW(check_api(&api, "p.so"));
  api.pjrt_api_version.major_version = PJRT_API_MAJOR + 1;
  EXPECT_THROW(check_api(&api, "p.so"), PluginError);
  api = fake_api();
  api.struct_size = offsetof(PJRT_Api, PJRT_Executable_OutputDimensions);
  EXPECT_THROW(check_api(&api, "p.so"), PluginError);
  EXPECT_THROW(check_api(nullptr, "p.so"), PluginError);
}

TEST(NamedValue, RoundTrip) {
  const NamedValues values = {
      {"a", std::string("text")}, {"b", int64_t{-3}}, {"c", std::vector<int64_t>{1, 2}}, {"d", 0.5f}, {"e", true}};
  const auto raw = to_pjrt(values);
  EXPECT_EQ(from_pjrt(raw.data(), raw.size()), values);
  EXPECT_EQ(to_string(values), "{a=text, b=-3, c=[1, 2], d=0.500000, e=true}");
}

}  // namespace
}  // namespace torch_tpu::pjrt
