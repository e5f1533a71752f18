// Where the user's program was when it called an op: for messages about what is found later. This layer knows no
// language; the one that does installs how to ask and how to tell.
#pragma once

#include <cstdint>
#include <string>

namespace torch_tpu::runtime {

// Of no use but to the installed functions. Stays good until the process ends.
struct SourceLine {
  const void* place = nullptr;  // null: not known
  int32_t detail = 0;
};

struct SourceLineFunctions {
  // Called for each op that is recorded, on its thread, and must be cheap.
  SourceLine (*current)() = nullptr;
  // As the end of a sentence: " (train.py:12, in forward)". May be called on any thread.
  std::string (*describe)(SourceLine) = nullptr;
};

// Both or none; before the first op.
void set_source_line_functions(SourceLineFunctions functions);
SourceLine current_source_line();
// Empty where the line is not known.
std::string describe(SourceLine line);

}  // namespace torch_tpu::runtime
