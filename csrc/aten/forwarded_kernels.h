// PyTorch's own kernels under this backend's dispatch keys.
#pragma once

#include <torch/library.h>

#include <initializer_list>

namespace torch_tpu::aten {

// Registers with `library` (of one of this backend's keys) the kernels that PyTorch has for `from`. Only for kernels
// that are written in terms of other ops and never touch memory: those that PyTorch registers for its CPU and CUDA
// backends alike. Names are overloads without "aten::".
void forward_kernels(torch::Library& library, c10::DispatchKey from, std::initializer_list<const char*> names);
// The same for ops of which PyTorch may have the in-place form and the out form too: "abs", "abs_" and "abs.out".
void forward_pointwise_kernels(torch::Library& library, c10::DispatchKey from,
                               std::initializer_list<const char*> names);

}  // namespace torch_tpu::aten
