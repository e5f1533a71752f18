// The line of Python that calls an op.
#pragma once

#include <string>
#include <vector>

namespace torch_tpu {

// From now on messages name lines outside `folders`: those of packages whose code nobody wants to be pointed to.
// Returns false where this version of Python is not known well enough for it.
bool record_python_lines(std::vector<std::string> folders);

}  // namespace torch_tpu
