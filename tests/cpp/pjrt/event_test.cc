#include "pjrt/event.h"

#include <future>

#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

TEST(Event, EmptyIsReady) {
  Event event;
  EXPECT_FALSE(event);
  EXPECT_TRUE(event.is_ready());
  event.await();
  bool called = false;
  event.on_ready([&](const Error* error) { called = error == nullptr; });
  EXPECT_TRUE(called);
}

TEST(Event, Completion) {
  auto cube = cpu_client()->compile(kCube, portable_options());
  const Buffer a = upload(std::vector<float>(512 * 512, 1), {512, 512});
  PJRT_Buffer* args[] = {a.get()};
  PJRT_Buffer* output[1];
  PJRT_Event* raw = nullptr;
  cube->execute(args, output, {.device = device(0).get(), .complete_event = &raw});
  const Buffer result(cpu_client()->api(), output[0]);
  const Event complete(cpu_client()->api(), raw);

  std::promise<bool> succeeded;
  {
    Event event = result.ready_event();
    event.on_ready([&](const Error* error) { succeeded.set_value(error == nullptr); });
  }  // the callback comes although the event is gone
  EXPECT_TRUE(succeeded.get_future().get());
  complete.await();
  EXPECT_TRUE(complete.is_ready());
  EXPECT_TRUE(result.ready_event().is_ready());
}

TEST(Event, Failure) {
  auto program = cpu_client()->compile(kHugeTemporary, portable_options());
  const Buffer one = upload({1}, {});
  const Buffer failed = run(*program, {one.get()});
  std::promise<std::string> text;
  failed.ready_event().on_ready([&](const Error* error) { text.set_value(error == nullptr ? "" : error->what()); });
  EXPECT_PRED2(contains, text.get_future().get(), "Out of memory");
  EXPECT_TRUE(failed.ready_event().is_ready());
  EXPECT_THROW(failed.ready_event().await(), Error);
}

TEST(Event, Moves) {
  const Buffer a = upload({1}, {1});
  Event first = a.ready_event();
  PJRT_Event* raw = first.get();
  Event second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.get(), raw);
  second = a.ready_event();
  EXPECT_TRUE(second.is_ready());
}

}  // namespace
}  // namespace torch_tpu::pjrt
