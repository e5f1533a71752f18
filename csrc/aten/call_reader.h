// The two readings of a boxed call: the quick one that fills a Call and its key each time, and the slow one that
// describes it when its program must be built. Both walk the arguments in schema order, so that tensors and scalars get
// the same positions.
#pragma once

#include <vector>

#include "aten/op_entry.h"
#include "runtime/description.h"

namespace torch_tpu::aten {

// By position among the call's tensors: views whose offset does not fit the plain plan of their geometry. Empty for
// nearly all calls.
using Irregular = std::vector<bool>;
inline bool is_irregular(const Irregular& irregular, size_t i) { return i < irregular.size() && irregular[i]; }

runtime::ScalarValue scalar_of(const c10::IValue& v);
// Whether the number is the schema's default, which is baked into the program.
bool equals_default(const OpEntry::Argument& a, const runtime::ScalarValue& s);

// Fills `call` from the arguments. Throws for tensors of different devices. May be called again after views turned out
// to be irregular or outputs were resized.
void fill_call(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, const Irregular& irregular,
               const lowering::Numerics& numerics, runtime::Call& call);

// Asks PyTorch's meta kernels, which raise CPU's errors for bad input.
runtime::CallDescription describe_call(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments,
                                       const runtime::Call& call, const Irregular& irregular);

}  // namespace torch_tpu::aten
