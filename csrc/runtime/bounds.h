// Index bounds found broken on the device. In strict mode a program that indexes leaves a flag behind, which is read
// at the next synchronization; in debug mode at once.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/memory.h"

namespace torch_tpu::runtime {

class IndexError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

void add_bounds_flag(BufferRef flag, const std::string& op);
// Reads the flags that are there and throws IndexError if one is set. All are dropped either way.
void check_bounds();
void check_bounds_flag(DeviceBuffer& flag, const std::string& op, bool immediate);

}  // namespace torch_tpu::runtime
