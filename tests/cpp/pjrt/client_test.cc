#include "pjrt/client.h"

#include <complex>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

TEST(Client, Description) {
  const auto& client = cpu_client();
  EXPECT_EQ(client->platform_name(), "cpu");
  EXPECT_FALSE(client->platform_version().empty());
  EXPECT_EQ(client->process_index(), 0);
  ASSERT_EQ(client->addressable_devices().size(), static_cast<size_t>(kDevices));
  EXPECT_EQ(client->devices().size(), static_cast<size_t>(kDevices));
  EXPECT_TRUE(client->has_host_memory());
}

TEST(Client, Devices) {
  for (int i = 0; i < kDevices; ++i) {
    EXPECT_EQ(device(i).id(), i);
    EXPECT_EQ(device(i).local_hardware_id(), i);
    EXPECT_EQ(device(i).process_index(), 0);
    EXPECT_TRUE(device(i).is_addressable());
    EXPECT_EQ(device(i).kind(), "cpu");
    EXPECT_FALSE(device(i).debug_string().empty());
  }
  EXPECT_FALSE(device(0) == device(1));
  EXPECT_NO_THROW(device(0).attributes());
  EXPECT_FALSE(device(0).memory_stats().has_value());  // this plugin keeps none
}

TEST(Client, UnusableOptionIsNamed) {
  try {
    Client::create(Plugin::load(cpu_plugin_path()), {{"cpu_device_count", int64_t{0}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_PRED2(contains, error.what(), "cpu_device_count=0");
  }
}

TEST(Client, SecondClientComesAndGoes) {
  const auto client = Client::create(Plugin::load(cpu_plugin_path()));
  EXPECT_GE(client->addressable_devices().size(), 1u);
  std::unique_ptr<LoadedExecutable> program = client->compile(kAdd, portable_options());
  EXPECT_GT(client.use_count(), 1);  // the program keeps its client
}

template <class T>
void round_trip(ElementType type, const std::vector<T>& values, const std::vector<int64_t>& dims) {
  const Buffer buffer = cpu_client()->buffer_from_host(values.data(), type, dims, device(1));
  EXPECT_EQ(buffer.element_type(), type);
  EXPECT_EQ(std::vector<int64_t>(buffer.dims().begin(), buffer.dims().end()), dims);
  EXPECT_EQ(buffer.on_device_size(), values.size() * sizeof(T));
  EXPECT_EQ(buffer.device(), device(1).get());
  std::vector<T> back(values.size());
  buffer.copy_to_host(back.data(), back.size() * sizeof(T)).await();
  EXPECT_EQ(back, values);
}

TEST(Buffer, RoundTrip) {
  round_trip<float>(ElementType::kF32, {1, 2, 3, 4, 5, 6}, {1, 2, 3});
  round_trip<float>(ElementType::kF32, {7}, {});
  round_trip<float>(ElementType::kF32, {}, {2, 0, 3});
  round_trip<double>(ElementType::kF64, {1.5, -2}, {2});
  round_trip<int64_t>(ElementType::kS64, {1, -2}, {2, 1});
  round_trip<uint8_t>(ElementType::kPred, {1, 0, 1}, {3});
  round_trip<uint16_t>(ElementType::kBF16, {0x3f80, 0x4000}, {2});
  round_trip<std::complex<float>>(ElementType::kC64, {{1, 2}, {3, 4}}, {2});
  round_trip<std::complex<double>>(ElementType::kC128, {{1, 2}}, {1, 1});
  round_trip<uint8_t>(ElementType::kF8E4M3FN, {0x38, 0x40}, {2});
}

TEST(Buffer, EveryElementTypeMapsBack) {
  for (int i = 0; i < static_cast<int>(ElementType::kInvalid); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(from_pjrt(element_type_info(type).pjrt), type) << name_of(type);
  }
  EXPECT_EQ(from_pjrt(PJRT_Buffer_Type_TOKEN), ElementType::kInvalid);
}

TEST(Buffer, HostPointer) {
  const Buffer buffer = upload({1, 2, 3}, {3});
  buffer.ready_event().await();
  EXPECT_TRUE(buffer.is_on_cpu());
  auto* values = static_cast<float*>(buffer.unsafe_host_pointer());
  EXPECT_EQ(values[2], 3);
  values[2] = 30;
  EXPECT_EQ(download(buffer), (std::vector<float>{1, 2, 30}));
}

TEST(Buffer, CopyToDevice) {
  const Buffer here = upload({1, 2, 3}, {3});
  const Buffer there = here.copy_to_device(device(2));
  EXPECT_EQ(there.device(), device(2).get());
  EXPECT_EQ(download(there), (std::vector<float>{1, 2, 3}));
}

TEST(Buffer, Ownership) {
  Buffer first = upload({1}, {1});
  PJRT_Buffer* raw = first.get();
  Buffer second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.get(), raw);
  EXPECT_EQ(second.release(), raw);
  EXPECT_FALSE(second);
  Buffer third(cpu_client()->api(), raw);
  third.reset();
  EXPECT_FALSE(third);
}

TEST(Buffer, Delete) {
  Buffer buffer = upload({1}, {1});
  EXPECT_FALSE(buffer.is_deleted());
  buffer.delete_memory();
  EXPECT_TRUE(buffer.is_deleted());
  EXPECT_THROW(buffer.unsafe_host_pointer(), Error);
}

TEST(Buffer, Uninitialized) {
  ASSERT_TRUE(cpu_client()->can_create_uninitialized());
  const std::vector<int64_t> dims = {2, 2};
  const Buffer buffer = cpu_client()->create_uninitialized_buffer(ElementType::kF32, dims, device(0));
  EXPECT_EQ(buffer.on_device_size(), 16u);
  auto* values = static_cast<float*>(buffer.unsafe_host_pointer());
  for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(i);
  EXPECT_EQ(download(buffer), (std::vector<float>{0, 1, 2, 3}));
  const std::vector<int64_t> too_large = {50'000'000'000'000};
  EXPECT_THROW(cpu_client()->create_uninitialized_buffer(ElementType::kF32, too_large, device(0)), Error);
}

TEST(Buffer, ZeroCopyUsesAlignedHostMemoryUntilFreed) {
  alignas(64) float values[16] = {1, 2, 3};
  const std::vector<int64_t> dims = {16};
  PJRT_Event* raw = nullptr;
  Buffer buffer = cpu_client()->buffer_from_host(values, ElementType::kF32, dims, device(0),
                                                 HostBufferSemantics::kImmutableZeroCopy, &raw);
  const Event done(cpu_client()->api(), raw);
  EXPECT_EQ(buffer.unsafe_host_pointer(), values);
  EXPECT_FALSE(done.is_ready());
  buffer.reset();
  done.await();
}

TEST(Buffer, ZeroCopyNeedsADoneEvent) {
  const float value = 1;
  EXPECT_THROW(
      cpu_client()->buffer_from_host(&value, ElementType::kF32, {}, device(0), HostBufferSemantics::kImmutableZeroCopy),
      std::invalid_argument);
}

}  // namespace
}  // namespace torch_tpu::pjrt
