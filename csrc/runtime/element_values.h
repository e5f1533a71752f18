// Between the elements of an array and the values that they stand for. They differ for complex32 only, which XLA does
// not have: an element is a word of two halves, its value a complex64.
#pragma once

#include "lowering/op.h"

namespace torch_tpu::runtime {

inline stablehlo::Value to_values(stablehlo::Value elements) {
  using namespace stablehlo;
  if (elements.element() != ElementType::kC32) return elements;
  Value halves = convert(bitcast_convert(elements, ElementType::kF16), ElementType::kF32);
  const int64_t last = halves.rank() - 1;
  const auto part = [&](int64_t i) { return reshape(slice_dim(halves, last, i, i + 1), elements.dims()); };
  return complex(part(0), part(1));
}

inline stablehlo::Value to_elements(stablehlo::Value values, ElementType element) {
  using namespace stablehlo;
  values = convert(values, value_type(element));
  if (element != ElementType::kC32) return values;
  Dims pair = values.dims();
  pair.push_back(1);
  const auto half = [&](Value part) { return reshape(convert(part, ElementType::kF16), pair); };
  const Value parts[2] = {half(real(values)), half(imag(values))};
  return bitcast_convert(concatenate(parts, static_cast<int64_t>(pair.size()) - 1), element);
}

}  // namespace torch_tpu::runtime
