// Keeps the StableHLO of programs that are built while recording is on: for tests and debugging tools.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace torch_tpu::runtime {

void set_module_recording(bool on);
void record_module(const std::string& op, const std::string& text);
// (op, module text) in the order of building; clears the list.
std::vector<std::pair<std::string, std::string>> take_recorded_modules();

}  // namespace torch_tpu::runtime
