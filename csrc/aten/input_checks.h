// Input errors in CPU's words.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "aten/op_entry.h"

namespace torch_tpu::aten {

// Raises for inputs that CPU's kernels refuse and PyTorch's meta kernels let pass.
void check_inputs(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments);

// A meta kernel has refused the call, some in words of their own: runs it on small CPU tensors of the same geometry,
// which raises what a user of the CPU would read. Returns where it does not raise, or the tensors are large.
void raise_as_on_cpu(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments);

// The written arguments must be able to take the functional form's `results`: their shape in an in-place form, their
// dtype in both. Meta kernels written in Python check neither.
void check_written(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, const std::vector<MetaResult>& results);

}  // namespace torch_tpu::aten
