// Work on the arguments of some ops before they are keyed.
#pragma once

#include <string>

#include "aten/op_entry.h"

namespace torch_tpu::aten {

// The prepare step of an overload ("index.Tensor"), or null.
bool (*prepare_function(const std::string& name))(const OpEntry&, torch::jit::Stack*);

}  // namespace torch_tpu::aten
