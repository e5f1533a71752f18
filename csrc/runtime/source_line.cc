#include "runtime/source_line.h"

namespace torch_tpu::runtime {
namespace {

SourceLineFunctions installed;

}  // namespace

void set_source_line_functions(SourceLineFunctions functions) { installed = functions; }

SourceLine current_source_line() { return installed.current ? installed.current() : SourceLine{}; }

std::string describe(SourceLine line) { return line.place ? installed.describe(line) : std::string(); }

}  // namespace torch_tpu::runtime
