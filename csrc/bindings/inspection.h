// What tools and tests ask of the table of lowerings, of recorded programs and of compilers for absent devices.
#pragma once

#include <torch/extension.h>

namespace torch_tpu {

void bind_inspection(pybind11::module_& m);

}  // namespace torch_tpu
