// PyTorch's hooks for this device, and pinned host memory.
#pragma once

namespace torch_tpu::aten {

// Registers the hooks once; called when the extension is imported.
void register_hooks();

}  // namespace torch_tpu::aten
