// Faults in a call's values that are found on the device: an index out of range, a division by zero, a matrix that
// cannot be factored. In strict mode a program that may find one leaves a flag behind, which is read at the next
// synchronization; in debug mode at once.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/memory.h"
#include "runtime/source_line.h"

namespace torch_tpu::runtime {

class IndexError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
class LinAlgError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `flag` is a byte: 0, or the number of a lowering::Fault.
void add_bounds_flag(BufferRef flag, const std::string& op, SourceLine line);
// Reads the flags that are there and throws if one is set: IndexError, LinAlgError, std::runtime_error. All are dropped
// either way.
void check_bounds();
void check_bounds_flag(DeviceBuffer& flag, const std::string& op, SourceLine line, bool immediate);

}  // namespace torch_tpu::runtime
