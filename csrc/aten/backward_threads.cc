#include "aten/backward_threads.h"

#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <future>
#include <thread>

#include "aten/device.h"
#include "runtime/session.h"

namespace torch_tpu::aten {
namespace {

namespace autograd = torch::autograd;

struct Nothing : autograd::Node {
  autograd::variable_list apply(autograd::variable_list&&) override { return {}; }
};

// A backward of nothing on this device. Its thread takes one node after the other, so it has let go of all before.
void pass_through(int device) {
  const at::Tensor gradient = at::empty({0}, at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(device)));
  auto node = c10::make_intrusive<Nothing>();
  node->add_input_metadata(gradient);
  autograd::Engine::get_default_engine().execute({autograd::Edge(std::move(node), 0)}, {gradient}, /*keep_graph=*/false,
                                                 /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace

void drain_backward_threads() {
  if (!runtime::Session::started() || runtime::Session::in_bad_fork()) return;
  std::packaged_task<void()> pass([] {
    for (int device = 0; device < device_count(); ++device) pass_through(device);
  });
  std::future<void> passed = pass.get_future();
  // A thread of its own: it has no Python state that this backward could keep in turn, and it may be left behind.
  std::thread(std::move(pass)).detach();
  if (passed.wait_for(std::chrono::seconds(10)) == std::future_status::ready) passed.get();
}

}  // namespace torch_tpu::aten
