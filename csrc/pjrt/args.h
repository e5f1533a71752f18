// Argument structs of the PJRT C API.
#pragma once

#include "pjrt_c_api.h"

// Declares a zeroed `type` whose struct_size says which fields this build knows. A plugin of another age reads only the
// fields that it knows too; a field that it does not know keeps its zero.
#define TORCH_TPU_PJRT_ARGS(type, name) \
  type name{};                          \
  name.struct_size = type##_STRUCT_SIZE
