#include "pjrt/discovery.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

namespace fs = std::filesystem;
using testing::contains;

class Discovery : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_ / "sys/bus/pci/devices");
    fs::create_directories(root_ / "dev");
    unsetenv("TPU_LIBRARY_PATH");
  }
  void TearDown() override {
    unsetenv("TPU_LIBRARY_PATH");
    fs::remove_all(root_);
  }

  void add_pci_device(const std::string& name, const std::string& vendor, const std::string& kind) {
    const fs::path folder = root_ / "sys/bus/pci/devices" / name;
    fs::create_directories(folder);
    std::ofstream(folder / "vendor") << vendor << "\n";
    if (!kind.empty()) std::ofstream(folder / "class") << kind << "\n";
  }
  std::string add_file(const std::string& name) {
    std::ofstream(root_ / name) << "x";
    return root_ / name;
  }
  bool chips() { return tpu_chips_present(root_ / "sys", root_ / "dev"); }
  PluginChoice choose(const std::string& cpu, const std::string& tpu) {
    return choose_plugin(cpu, tpu, root_ / "sys", root_ / "dev");
  }
  std::string choose_error(const std::string& cpu, const std::string& tpu) {
    try {
      choose(cpu, tpu);
    } catch (const PluginError& error) {
      return error.what();
    }
    return "";
  }

  fs::path root_;
};

TEST_F(Discovery, NoChips) {
  EXPECT_FALSE(chips());
  add_pci_device("0000:00:01.0", "0x8086", "0x120000");
  fs::create_directories(root_ / "dev/accel");  // other makers' accelerators
  add_file("dev/accelerometer");
  EXPECT_FALSE(chips());
  EXPECT_FALSE(tpu_chips_present("/nowhere", "/nowhere"));
}

TEST_F(Discovery, GoogleNetworkAndDiskAreNoChips) {
  add_pci_device("0000:00:03.0", "0x1ae0", "0x020000");
  add_pci_device("0000:00:04.0", "0x1ae0", "0x010802");
  EXPECT_FALSE(chips());
}

TEST_F(Discovery, ChipOnPci) {
  add_pci_device("0000:00:03.0", "0x1ae0", "0x020000");
  add_pci_device("0000:00:05.0", "0x1ae0", "0xff0000");
  EXPECT_TRUE(chips());
}

TEST_F(Discovery, ChipWithUnknownClass) {
  add_pci_device("0000:00:05.0", "0x1ae0", "");
  EXPECT_TRUE(chips());
}

TEST_F(Discovery, AccelNode) {
  add_file("dev/accel0");
  EXPECT_TRUE(chips());
}

TEST_F(Discovery, CpuPluginWithoutChips) {
  const std::string cpu = add_file("cpu.so"), tpu = add_file("libtpu.so");
  const PluginChoice choice = choose(cpu, tpu);
  EXPECT_EQ(choice.path, cpu);
  EXPECT_PRED2(contains, choice.reason, "no TPU chips");
  EXPECT_EQ(choice.warning, "");
}

TEST_F(Discovery, LibtpuWithChips) {
  const std::string cpu = add_file("cpu.so"), tpu = add_file("libtpu.so");
  add_file("dev/accel0");
  EXPECT_EQ(choose(cpu, tpu).path, tpu);
}

TEST_F(Discovery, ChipsWithoutLibtpuWarn) {
  const std::string cpu = add_file("cpu.so");
  add_file("dev/accel0");
  for (const char* missing : {"", "/nowhere/libtpu.so"}) {
    const PluginChoice choice = choose(cpu, missing);
    EXPECT_EQ(choice.path, cpu);
    EXPECT_PRED2(contains, choice.warning, "pip install libtpu");
  }
}

TEST_F(Discovery, EnvironmentWins) {
  const std::string cpu = add_file("cpu.so"), tpu = add_file("libtpu.so"), own = add_file("own.so");
  add_file("dev/accel0");
  setenv("TPU_LIBRARY_PATH", own.c_str(), 1);
  EXPECT_EQ(choose(cpu, tpu).path, own);
  setenv("TPU_LIBRARY_PATH", "", 1);
  EXPECT_EQ(choose(cpu, tpu).path, tpu);
  setenv("TPU_LIBRARY_PATH", "/nowhere/own.so", 1);
  EXPECT_PRED2(contains, choose_error(cpu, tpu), "'/nowhere/own.so', which does not exist");
}

TEST_F(Discovery, NothingInstalled) {
  EXPECT_PRED2(contains, choose_error("", ""), "pip install xla-cpu-pjrt==0.0.1");
  EXPECT_PRED2(contains, choose_error("/nowhere/cpu.so", ""), "/nowhere/cpu.so");
}

}  // namespace
}  // namespace torch_tpu::pjrt
