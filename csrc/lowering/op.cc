#include "lowering/op.h"

namespace torch_tpu::lowering {
using stablehlo::TypeError;

const Argument& Op::argument(std::string_view arg) const {
  auto it = arguments_.find(arg);
  if (it == arguments_.end()) throw TypeError(name_ + ": no argument named " + std::string(arg));
  return it->second;
}

template <typename T>
const T& Op::get(std::string_view arg, const char* kind) const {
  if (const T* value = std::get_if<T>(&argument(arg).value)) return *value;
  throw TypeError(name_ + ": argument " + std::string(arg) + " is not " + kind);
}

bool Op::has(std::string_view arg) const {
  auto it = arguments_.find(arg);
  return it != arguments_.end() && !it->second.is_none();
}

const TensorType& Op::type(std::string_view arg) const { return get<TensorArgument>(arg, "a tensor").type; }

bool Op::is_tensor(std::string_view arg) const { return std::holds_alternative<TensorArgument>(argument(arg).value); }

bool Op::is_wrapped_number(std::string_view arg) const {
  const Argument& a = argument(arg);
  if (const auto* t = std::get_if<TensorArgument>(&a.value)) return t->wrapped_number;
  return std::holds_alternative<ScalarArgument>(a.value);
}

bool Op::is_contiguous(std::string_view arg) const { return get<TensorArgument>(arg, "a tensor").contiguous; }

static Value load(const TensorArgument& t) { return t.load_as ? t.load_as(t.type.element) : t.load(); }

Value Op::tensor(std::string_view arg) const { return load(get<TensorArgument>(arg, "a tensor")); }

Value Op::tensor(std::string_view arg, ElementType as) const {
  const auto& t = get<TensorArgument>(arg, "a tensor");
  return t.load_as ? t.load_as(as) : stablehlo::convert(t.load(), as);
}

std::optional<Value> Op::optional_tensor(std::string_view arg) const {
  return has(arg) ? std::optional<Value>(tensor(arg)) : std::nullopt;
}

std::optional<Value> Op::optional_tensor(std::string_view arg, ElementType as) const {
  return has(arg) ? std::optional<Value>(tensor(arg, as)) : std::nullopt;
}

size_t Op::list_size(std::string_view arg) const {
  const Argument& a = argument(arg);
  if (const auto* scalars = std::get_if<std::vector<ScalarArgument>>(&a.value)) return scalars->size();
  return get<TensorListArgument>(arg, "a list").size();
}

const TensorType& Op::type(std::string_view arg, size_t i) const {
  const auto& t = get<TensorListArgument>(arg, "a list of tensors").at(i);
  if (!t) throw TypeError(name_ + ": element of " + std::string(arg) + " is None");
  return t->type;
}

std::vector<Value> Op::tensors(std::string_view arg) const {
  std::vector<Value> values;
  for (const auto& t : get<TensorListArgument>(arg, "a list of tensors")) {
    if (!t) throw TypeError(name_ + ": element of " + std::string(arg) + " is None");
    values.push_back(load(*t));
  }
  return values;
}

std::vector<std::optional<Value>> Op::optional_tensors(std::string_view arg) const {
  std::vector<std::optional<Value>> values;
  for (const auto& t : get<TensorListArgument>(arg, "a list of tensors"))
    values.push_back(t ? std::optional<Value>(load(*t)) : std::nullopt);
  return values;
}

static Value constant_of(Builder& b, const ScalarArgument& s, ElementType as) {
  if (is_complex(s.kind)) return stablehlo::constant(b, as, s.constant);
  if (s.kind == ElementType::kF64) return stablehlo::constant(b, as, s.constant.real());
  return stablehlo::constant(b, as, s.integer_constant);
}

Value Op::scalar(std::string_view arg, ElementType as) const {
  const Argument& a = argument(arg);
  if (const auto* t = std::get_if<TensorArgument>(&a.value)) {
    if (t->type.rank() != 0) throw TypeError(name_ + ": scalar " + std::string(arg) + " has dims");
    return t->load_as ? t->load_as(as) : stablehlo::convert(t->load(), as);
  }
  if (const auto* i = std::get_if<int64_t>(&a.value)) return stablehlo::constant(builder(), as, *i);
  if (const auto* v = std::get_if<bool>(&a.value)) return stablehlo::constant(builder(), as, *v);
  const auto& s = get<ScalarArgument>(arg, "a scalar");
  return s.is_constant ? constant_of(builder(), s, as) : s.load(as);
}

ElementType Op::scalar_kind(std::string_view arg) const { return get<ScalarArgument>(arg, "a scalar").kind; }

bool Op::scalar_is_constant(std::string_view arg) const { return get<ScalarArgument>(arg, "a scalar").is_constant; }

bool Op::scalar_equals(std::string_view arg, double value) const {
  const auto& s = get<ScalarArgument>(arg, "a scalar");
  if (!s.is_constant) return false;
  if (s.kind == ElementType::kF64 || is_complex(s.kind)) return s.constant == std::complex<double>(value);
  return static_cast<double>(s.integer_constant) == value;
}

std::complex<double> Op::constant_complex(std::string_view arg) const {
  const auto& s = get<ScalarArgument>(arg, "a scalar");
  if (!s.is_constant)
    throw TypeError(name_ + ": scalar " + std::string(arg) + " is a runtime input; register it as structural");
  if (s.kind == ElementType::kF64 || is_complex(s.kind)) return s.constant;
  return static_cast<double>(s.integer_constant);
}

double Op::constant_real(std::string_view arg) const { return constant_complex(arg).real(); }

int64_t Op::constant_integer(std::string_view arg) const {
  const auto& s = get<ScalarArgument>(arg, "a scalar");
  constant_complex(arg);  // checks that it is constant
  return s.kind == ElementType::kF64 || is_complex(s.kind) ? static_cast<int64_t>(s.constant.real())
                                                           : s.integer_constant;
}

int64_t Op::integer(std::string_view arg) const { return get<int64_t>(arg, "an int"); }

int64_t Op::integer_or(std::string_view arg, int64_t otherwise) const { return has(arg) ? integer(arg) : otherwise; }

bool Op::boolean(std::string_view arg) const { return get<bool>(arg, "a bool"); }

const std::string& Op::string(std::string_view arg) const { return get<std::string>(arg, "a string"); }

const Dims& Op::integers(std::string_view arg) const { return get<std::vector<int64_t>>(arg, "a list of ints"); }

const std::vector<bool>& Op::booleans(std::string_view arg) const {
  return get<std::vector<bool>>(arg, "a list of bools");
}

std::optional<ElementType> Op::dtype(std::string_view arg) const {
  if (!has(arg)) return std::nullopt;
  return get<ElementType>(arg, "a dtype");
}

bool Op::result_known(size_t i) const { return i < results_.size() && results_[i].element != ElementType::kInvalid; }

const TensorType& Op::result_type(size_t i) const {
  if (!result_known(i)) throw TypeError(name_ + ": type of result " + std::to_string(i) + " is not known");
  return results_[i];
}

Value Op::random_bits(ElementType bits, const Dims& dims) const {
  const TensorType type{bits, dims};
  const int64_t blocks = (type.numel() * static_cast<int64_t>(byte_size(bits)) + 15) / 16;
  return stablehlo::rng_bit_generator(context_->random_state(blocks), bits, dims).second;
}

}  // namespace torch_tpu::lowering
