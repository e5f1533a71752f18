// The types that StableHLO values have here: dense tensors of static shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt/element_type.h"

namespace torch_tpu::stablehlo {

using Dims = std::vector<int64_t>;

struct TensorType {
  ElementType element = ElementType::kInvalid;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  bool operator==(const TensorType&) const = default;
};

// "tensor<2x3xf32>"
std::string to_string(const TensorType& type);

}  // namespace torch_tpu::stablehlo
