// PyTorch's autograd engine runs each device's part of a backward on a thread of that device.
#pragma once

namespace torch_tpu::aten {

// Returns when those threads have let go of every backward that has ended (at the latest after ten seconds, where one
// is held up). Such a thread can be the last to hold what a backward kept, Python objects among it; to free them it
// takes the GIL, which aborts the process if the interpreter is ending. Call without the GIL.
void drain_backward_threads();

}  // namespace torch_tpu::aten
