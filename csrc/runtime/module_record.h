// Keeps the StableHLO of programs that are built while recording is on: for tests and tools.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/lower.h"

namespace torch_tpu::runtime {

// The same call's program for a TPU, whatever the session's device is.
struct TpuProgram {
  std::string op;                  // "aten::add.Tensor"
  std::string lowering;            // "add.Tensor"
  std::vector<ElementType> types;  // of the tensor arguments
  int64_t nbytes = 0;              // of the tensor arguments' arrays
  std::string text;                // empty where lowering failed
  std::string error;
};

void set_module_recording(bool on);
void set_tpu_program_recording(bool on);
// Called for each program that is built, with its text for the session's device.
void record_program(const Recipe& recipe, const std::string& text);
// The same for a trace, which `op` describes.
void record_module(const std::string& op, const std::string& text);
// (op, module text) in the order of building; clears the list.
std::vector<std::pair<std::string, std::string>> take_recorded_modules();
std::vector<TpuProgram> take_tpu_programs();

}  // namespace torch_tpu::runtime
