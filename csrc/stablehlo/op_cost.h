// What an op costs, by its name and types.
#pragma once

#include <span>
#include <string_view>

#include "stablehlo/types.h"

namespace torch_tpu::stablehlo {

// Operations on numbers, as XLA's cost analysis counts them: one an element, none for moves and for transcendental
// functions. Infinite where the types do not tell, such as for a loop.
double flops_of(std::string_view name, std::span<const TensorType> operands, std::span<const TensorType> results);

// Roughly the instructions for one element, in a kernel that the op shares with others; 0 for what is no part of such
// a kernel.
int fusible_work_of(std::string_view name);

}  // namespace torch_tpu::stablehlo
