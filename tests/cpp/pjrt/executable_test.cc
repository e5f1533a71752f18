#include "pjrt/executable.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

using Dims = std::vector<std::vector<int64_t>>;

TEST(Executable, AddRoundTrip) {
  auto program = cpu_client()->compile(kAdd, CompileOptions{}.serialize());
  const Buffer a = upload({1, 2, 3, 4, 5, 6}, {2, 3});
  const Buffer b = upload({10, 20, 30, 40, 50, 60}, {2, 3});
  PJRT_Buffer* args[] = {a.get(), b.get()};
  PJRT_Buffer* output[1];
  program->execute(args, output, {});
  const Buffer sum(cpu_client()->api(), output[0]);
  EXPECT_EQ(download(sum), (std::vector<float>{11, 22, 33, 44, 55, 66}));
  EXPECT_EQ(program->addressable_devices().size(), 1u);
}

TEST(Executable, Description) {
  auto program = cpu_client()->compile(kAdd, portable_options());
  EXPECT_EQ(program->executable().name(), "add");
  EXPECT_EQ(program->num_outputs(), 1u);
  EXPECT_EQ(program->output_types(), (std::vector<ElementType>{ElementType::kF32}));
  EXPECT_EQ(program->output_dims(), (Dims{{2, 3}}));
  const auto costs = program->cost_analysis();
  if (costs.contains("flops")) {  // not every plugin has it
    EXPECT_EQ(costs.at("flops"), 6);
  }
  const auto memory = program->compiled_memory_stats();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->arguments, 48);
  EXPECT_EQ(memory->outputs, 24);
  ASSERT_TRUE(program->optimized_program().has_value());
  EXPECT_FALSE(program->optimized_program()->code.empty());
  auto again = cpu_client()->compile(kAdd, portable_options());
  EXPECT_EQ(program->fingerprint(), again->fingerprint());
}

TEST(Executable, SeveralOutputsOfSeveralRanks) {
  auto program = cpu_client()->compile(R"(
    module @two {
      func.func public @main(%a: tensor<2x3xf32>) -> (tensor<i32>, tensor<2x3xf32>, tensor<0xf32>) {
        %0 = stablehlo.constant dense<7> : tensor<i32>
        %1 = stablehlo.constant dense<> : tensor<0xf32>
        return %0, %a, %1 : tensor<i32>, tensor<2x3xf32>, tensor<0xf32>
      }
    })",
                                       portable_options());
  EXPECT_EQ(program->output_types(),
            (std::vector<ElementType>{ElementType::kS32, ElementType::kF32, ElementType::kF32}));
  EXPECT_EQ(program->output_dims(), (Dims{{}, {2, 3}, {0}}));
  const Buffer a = upload({1, 2, 3, 4, 5, 6}, {2, 3});
  PJRT_Buffer* args[] = {a.get()};
  PJRT_Buffer* outputs[3];
  program->execute(args, outputs, {.device = device(0).get()});
  const Buffer number(cpu_client()->api(), outputs[0]), copy(cpu_client()->api(), outputs[1]),
      empty(cpu_client()->api(), outputs[2]);
  int32_t seven = 0;
  number.copy_to_host(&seven, sizeof(seven)).await();
  EXPECT_EQ(seven, 7);
  EXPECT_EQ(download(copy), download(a));
  EXPECT_TRUE(download(empty).empty());
}

TEST(Executable, RoomForOutputsIsChecked) {
  auto program = cpu_client()->compile(kAdd, portable_options());
  const Buffer a = upload(std::vector<float>(6), {2, 3});
  PJRT_Buffer* args[] = {a.get(), a.get()};
  EXPECT_THROW(program->execute(args, {}, {.device = device(0).get()}), std::invalid_argument);
}

TEST(Executable, PortableProgramRunsOnEveryDevice) {
  auto program = cpu_client()->compile(kAdd, portable_options());
  EXPECT_TRUE(program->addressable_devices().empty());
  for (int i = 0; i < kDevices; ++i) {
    const Buffer a = upload(std::vector<float>(6, static_cast<float>(i)), {2, 3}, i);
    const Buffer sum = run(*program, {a.get(), a.get()}, i);
    EXPECT_EQ(sum.device(), device(i).get());
    EXPECT_EQ(download(sum), std::vector<float>(6, static_cast<float>(2 * i)));
  }
  // Arguments must be where the program runs.
  const Buffer elsewhere = upload(std::vector<float>(6), {2, 3}, 1);
  EXPECT_THROW(run(*program, {elsewhere.get(), elsewhere.get()}, 0), Error);
}

TEST(Executable, AllReduceOverReplicas) {
  CompileOptions options;
  options.num_replicas = kDevices;
  options.device_assignment = {0, 1, 2, 3};
  auto program = cpu_client()->compile(R"(
    module @all_reduce {
      func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = "stablehlo.all_reduce"(%a) ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %s = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    })",
                                       options.serialize());
  EXPECT_EQ(program->addressable_devices().size(), static_cast<size_t>(kDevices));

  Buffer inputs[kDevices];
  PJRT_Buffer* args[kDevices];
  PJRT_Buffer* outputs[kDevices];
  PJRT_Buffer* const* arg_lists[kDevices];
  PJRT_Buffer** output_lists[kDevices];
  PJRT_Event* events[kDevices];
  for (int i = 0; i < kDevices; ++i) {
    inputs[i] = upload({static_cast<float>(i), 1}, {2}, i);
    args[i] = inputs[i].get();
    arg_lists[i] = &args[i];
    output_lists[i] = &outputs[i];
  }
  program->execute_replicas(arg_lists, 1, output_lists, {.complete_events = events, .launch_id = 1});
  for (int i = 0; i < kDevices; ++i) {
    Event(cpu_client()->api(), events[i]).await();
    EXPECT_EQ(download(Buffer(cpu_client()->api(), outputs[i])), (std::vector<float>{6, 4}));
  }
  EXPECT_THROW(program->execute_replicas(arg_lists, 1, {}, {}), std::invalid_argument);
}

TEST(Executable, SerializeAndLoad) {
  auto program = cpu_client()->compile(kAdd, portable_options());
  const std::string bytes = program->serialize();
  program.reset();
  auto loaded = cpu_client()->deserialize(bytes);
  EXPECT_EQ(loaded->num_outputs(), 1u);
  EXPECT_EQ(loaded->output_dims(), (Dims{{2, 3}}));
  const Buffer a = upload({1, 2, 3, 4, 5, 6}, {2, 3}, 2);
  EXPECT_EQ(download(run(*loaded, {a.get(), a.get()}, 2)), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST(Donation, OutputTakesOverTheMemory) {
  auto program = cpu_client()->compile(kDonatingAdd, portable_options());
  const Buffer a = upload({1, 2, 3, 4, 5, 6}, {2, 3});
  const Buffer b = upload({1, 1, 1, 1, 1, 1}, {2, 3});
  const void* memory = a.unsafe_host_pointer();
  const Buffer sum = run(*program, {a.get(), b.get()});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_FALSE(b.is_deleted());
  EXPECT_EQ(sum.unsafe_host_pointer(), memory);
  EXPECT_EQ(download(sum), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  EXPECT_THROW(run(*program, {a.get(), b.get()}), Error);
}

TEST(Donation, CanBeDeclinedPerRun) {
  auto program = cpu_client()->compile(kDonatingAdd, portable_options());
  const Buffer a = upload({1, 2, 3, 4, 5, 6}, {2, 3});
  const int64_t keep[] = {0};
  const Buffer sum = run(*program, {a.get(), a.get()}, 0, keep);
  EXPECT_FALSE(a.is_deleted());
  EXPECT_EQ(download(sum), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(download(a), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Donation, OfAnArgumentThatIsPassedTwiceIsRefused) {
  auto program = cpu_client()->compile(kDonatingAdd, portable_options());
  const Buffer a = upload(std::vector<float>(6, 1), {2, 3});
  EXPECT_THROW(run(*program, {a.get(), a.get()}), Error);
  EXPECT_FALSE(a.is_deleted());
}

TEST(Donation, WaitsForEarlierReaders) {
  auto cube = cpu_client()->compile(kCube, portable_options());
  auto zero = cpu_client()->compile(R"(
    module @zero {
      func.func public @main(%a: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}) -> tensor<512x512xf32> {
        %0 = stablehlo.subtract %a, %a : tensor<512x512xf32>
        return %0 : tensor<512x512xf32>
      }
    })",
                                    portable_options());
  const Buffer a = upload(std::vector<float>(512 * 512, 1.0f / 64), {512, 512});
  const void* memory = a.unsafe_host_pointer();
  const Buffer cubed = run(*cube, {a.get()});
  const Buffer zeroed = run(*zero, {a.get()});
  EXPECT_EQ(zeroed.unsafe_host_pointer(), memory);
  EXPECT_EQ(download(cubed), std::vector<float>(512 * 512, 1));
  EXPECT_EQ(download(zeroed), std::vector<float>(512 * 512, 0));
}

TEST(Execution, DependentRunsWaitForEachOther) {
  auto cube = cpu_client()->compile(kCube, portable_options());
  Buffer value = upload(std::vector<float>(512 * 512, 1.0f / 512), {512, 512});
  for (int i = 0; i < 3; ++i) value = run(*cube, {value.get()});  // inputs are freed while in use
  EXPECT_EQ(download(value), std::vector<float>(512 * 512, 1.0f / 512));
}

TEST(Execution, FromManyThreads) {
  auto program = cpu_client()->compile(kAdd, portable_options());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const Buffer a = upload(std::vector<float>(6, static_cast<float>(t)), {2, 3}, t % kDevices);
        const Buffer b = upload(std::vector<float>(6, static_cast<float>(i)), {2, 3}, t % kDevices);
        if (download(run(*program, {a.get(), b.get()}, t % kDevices)) !=
            std::vector<float>(6, static_cast<float>(t + i))) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace torch_tpu::pjrt
