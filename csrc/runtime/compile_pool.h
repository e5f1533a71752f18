// Threads that compile while Python goes on.
#pragma once

#include <functional>

namespace torch_tpu::runtime {

// Runs `work` on a thread of the pool, in order of submission. It must not throw.
void submit_compilation(std::function<void()> work);

// Waits until nothing is queued or running. Before the process ends: the plugin's statics go while its threads run.
void drain_compilations();

}  // namespace torch_tpu::runtime
