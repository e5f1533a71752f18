// torch._foreach_*: one program that runs the lowering of the plain op on each tensor of the lists.
#include <limits>
#include <string>

#include "lowering/helpers.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;
using enum ElementType;

using Arguments = std::map<std::string, Argument, std::less<>>;

const Argument& argument(const Op& op, std::string_view name) { return op.arguments().find(name)->second; }

const TensorArgument& element(const Op& op, std::string_view list, size_t i) {
  op.type(list, i);  // checks that it is a list of tensors and has this one
  return *std::get<TensorListArgument>(argument(op, list).value)[i];
}

// Element i of a Scalar[], or the one Scalar that goes to all.
ScalarArgument scalar_for(const Op& op, std::string_view name, size_t i) {
  const Argument& a = argument(op, name);
  if (const auto* list = std::get_if<std::vector<ScalarArgument>>(&a.value)) return list->at(i);
  return std::get<ScalarArgument>(a.value);
}

ScalarArgument integer_scalar(int64_t value) {
  ScalarArgument s;
  s.kind = kS64;
  s.is_constant = true;
  s.constant = static_cast<double>(value);
  s.integer_constant = value;
  return s;
}

// A number in the place of a tensor, as Python's `x * 2` passes it.
TensorArgument wrapped(const Op& op, const ScalarArgument& scalar) {
  TensorArgument t;
  t.type = {scalar.kind, {}};
  t.wrapped_number = true;
  Op reader = op.with("scalar", {{"value", {scalar}}}, {});
  t.load_as = [reader](ElementType as) { return reader.scalar("value", as); };
  t.load = [reader, kind = scalar.kind] { return reader.scalar("value", kind); };
  return t;
}

// Element i of a one-dimensional tensor of numbers, as a Scalar.
ScalarArgument scalar_of_tensor(const Op& op, std::string_view name, size_t i) {
  ScalarArgument s;
  const ElementType type = op.element(name);
  s.kind = is_complex(type) ? kC128 : is_floating(type) ? kF64 : is_bool(type) ? kPred : kS64;
  s.load = [values = op.tensor(name), i](ElementType as) {
    const auto at = static_cast<int64_t>(i);
    return convert(reshape(slice(flatten(values), {at}, {at + 1}), {}), as);
  };
  return s;
}

// One call of the lowering `name`, with the type that ATen gives its result.
Value call(const Op& op, const std::string& name, Arguments arguments, const TensorType& result) {
  const Lowering* lowering = Registry::instance().find(name);
  if (!lowering) throw Unsupported(op.name() + " needs a lowering of " + name);
  Op sub = op.with(name, std::move(arguments), {result});
  return convert(lowering->run(sub).at(0), result.element);
}

// The dims of `like` broadcast with those of the other tensor arguments.
Dims result_dims(const Arguments& arguments) {
  Dims dims;
  for (const auto& [name, a] : arguments)
    if (const auto* t = std::get_if<TensorArgument>(&a.value)) dims = broadcast_dims(dims, t->type.dims);
  return dims;
}

// ATen's plain result types.
enum class ResultType { kCommon, kFloat, kSelf, kReal };

Value call_with(const Op& op, const std::string& name, const Arguments& arguments, ResultType rule,
                std::initializer_list<std::string_view> promoted) {
  Op probe = op.with(name, arguments, {});
  TensorType result{kInvalid, result_dims(arguments)};
  switch (rule) {
    case ResultType::kCommon:
      result.element = common_type(probe, promoted);
      break;
    case ResultType::kFloat:
      result.element = common_float_type(probe, promoted);
      break;
    case ResultType::kSelf:
      result.element = probe.element("self");
      break;
    case ResultType::kReal:
      result.element = real_type(probe.element("self"));
      break;
  }
  return call(op, name, arguments, result);
}

// --- one tensor in, one out. The plain op's name is what follows "_foreach_".

template <ResultType rule>
Results unary(Op& op) {
  const std::string base = op.name().substr(std::string_view("_foreach_").size());
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i)
    results.push_back(call_with(op, base, {{"self", {element(op, "self", i)}}}, rule, {"self"}));
  return results;
}

// --- two operands

enum class Operation { kAdd, kSubtract, kMultiply, kDivide, kMaximum, kMinimum };

constexpr const char* base_name(Operation operation) {
  constexpr const char* kNames[] = {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum"};
  return kNames[static_cast<int>(operation)];
}

// The overloads .List, .Scalar, .ScalarList and .Tensor differ in where the second operand comes from.
TensorArgument second_operand(const Op& op, std::string_view base, size_t i) {
  if (!op.arguments().contains("other")) {
    const char* name = op.arguments().contains("scalars") ? "scalars" : "scalar";
    return wrapped(op, scalar_for(op, name, i));
  }
  if (!op.is_tensor("other")) return element(op, "other", i);
  const auto& other = std::get<TensorArgument>(argument(op, "other").value);
  if (other.type.rank() != 0)
    throw CallError("scalar tensor expected to be 0 dim but it has " + std::to_string(other.type.rank()) +
                    " dimensions and " + std::to_string(other.type.numel()) + " elements.");
  // ATen adds the tensor's number, but multiplies by and divides by the tensor: 0-dim elements promote differently.
  return base == "add.Tensor" ? wrapped(op, scalar_of_tensor(op, "other", 0)) : other;
}

template <Operation operation>
Results binary(Op& op) {
  const bool has_alpha = operation == Operation::kAdd || operation == Operation::kSubtract;
  const ResultType rule = operation == Operation::kDivide ? ResultType::kFloat : ResultType::kCommon;
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i) {
    const TensorArgument& self = element(op, "self", i);
    const TensorArgument other = second_operand(op, base_name(operation), i);
    if (operation == Operation::kSubtract && (is_bool(self.type.element) || is_bool(other.type.element)))
      throw CallError(
          "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
          "mask, use the `~` or `logical_not()` operator instead.");
    Arguments arguments = {{"self", {self}}, {"other", {other}}};
    if (has_alpha)
      arguments["alpha"] = op.arguments().contains("alpha") ? argument(op, "alpha") : Argument{integer_scalar(1)};
    results.push_back(call_with(op, base_name(operation), arguments, rule, {"self", "other"}));
  }
  return results;
}

Results pow_list(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i)
    results.push_back(call_with(op, "pow.Tensor_Tensor",
                                {{"self", {element(op, "self", i)}}, {"exponent", {element(op, "exponent", i)}}},
                                ResultType::kCommon, {"self", "exponent"}));
  return results;
}

Results pow_scalar(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i)
    results.push_back(call_with(op, "pow.Tensor_Scalar",
                                {{"self", {element(op, "self", i)}}, {"exponent", {scalar_for(op, "exponent", i)}}},
                                ResultType::kCommon, {"self", "exponent"}));
  return results;
}

Results pow_scalar_and_tensor(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("exponent"); ++i)
    results.push_back(call_with(op, "pow.Scalar",
                                {{"self", argument(op, "self")}, {"exponent", {element(op, "exponent", i)}}},
                                ResultType::kCommon, {"self", "exponent"}));
  return results;
}

// --- three operands

template <bool divide>
Results addc(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i) {
    Arguments arguments = {{"self", {element(op, "self", i)}},
                           {"tensor1", {element(op, "tensor1", i)}},
                           {"tensor2", {element(op, "tensor2", i)}}};
    if (op.arguments().contains("value")) {
      arguments["value"] = argument(op, "value");
    } else {
      arguments["value"] = {op.is_tensor("scalars") ? scalar_of_tensor(op, "scalars", i)
                                                    : scalar_for(op, "scalars", i)};
    }
    results.push_back(
        call_with(op, divide ? "addcdiv" : "addcmul", arguments, ResultType::kCommon, {"self", "tensor1", "tensor2"}));
  }
  return results;
}

Results lerp_list(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i)
    results.push_back(call_with(op, "lerp.Tensor",
                                {{"self", {element(op, "self", i)}},
                                 {"end", {element(op, "tensors1", i)}},
                                 {"weight", {element(op, "weights", i)}}},
                                ResultType::kSelf, {}));
  return results;
}

Results lerp_scalar(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i)
    results.push_back(call_with(op, "lerp.Scalar",
                                {{"self", {element(op, "self", i)}},
                                 {"end", {element(op, "tensors1", i)}},
                                 {"weight", {scalar_for(op, "weight", i)}}},
                                ResultType::kSelf, {}));
  return results;
}

// --- reductions

Results reduce_norm(Op& op, const std::string& base) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i) {
    const TensorArgument& self = element(op, "self", i);
    const TensorType result{real_type(op.dtype("dtype").value_or(self.type.element)), {}};
    results.push_back(call(op, base,
                           {{"self", {self}},
                            {"ord", argument(op, "ord")},
                            {"dim", {}},
                            {"keepdim", {false}},
                            {"dtype", argument(op, "dtype")}},
                           result));
  }
  return results;
}

Results norm(Op& op) {
  for (size_t i = 0; i < op.list_size("self"); ++i) {
    const double ord = op.constant_real("ord");
    if (op.type("self", i).numel() == 0 && (ord < 0 || ord == std::numeric_limits<double>::infinity()))
      throw CallError(
          "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
          "identity");
  }
  return reduce_norm(op, "linalg_vector_norm");
}

Results powsum(Op& op) { return reduce_norm(op, "linalg__powsum"); }

Results max(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i) {
    const TensorArgument& self = element(op, "self", i);
    if (self.type.numel() == 0)
      throw CallError(
          "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined.");
    results.push_back(call(op, "max", {{"self", {self}}}, {self.type.element, {}}));
  }
  return results;
}

// --- copies and matmul

Results clone(Op& op) { return op.tensors("self"); }

Results zero(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i)
    results.push_back(constant(op.builder(), op.type("self", i).element, 0, op.type("self", i).dims));
  return results;
}

Results copy(Op& op) {
  Results results = op.tensors("src");
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorType& to = op.type("self", i);
    results[i] = broadcast_to(convert(results[i], to.element), to.dims);
  }
  return results;
}

Results mm(Op& op) {
  Results results;
  for (size_t i = 0; i < op.list_size("self"); ++i) {
    const TensorArgument &a = element(op, "self", i), &b = element(op, "mat2", i);
    results.push_back(
        call(op, "mm", {{"self", {a}}, {"mat2", {b}}}, {a.type.element, {a.type.dims.at(0), b.type.dims.at(1)}}));
  }
  return results;
}

template <Operation operation>
void add_binary(Registry& r, const std::string& name) {
  for (const char* overload : {".List", ".Scalar", ".ScalarList"}) r.add(name + overload, binary<operation>);
}

}  // namespace

void register_foreach(Registry& r) {
  const std::string prefix = "_foreach_";
  for (const char* name :
       {"acos",  "asin",  "atan", "cos",        "cosh",  "erf",     "erfc", "exp",  "expm1", "lgamma", "log",
        "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin",  "sinh", "sqrt",  "tan",    "tanh"})
    r.add(prefix + name, unary<ResultType::kFloat>);
  for (const char* name : {"neg", "ceil", "floor", "frac", "round", "trunc", "sign"})
    r.add(prefix + name, unary<ResultType::kSelf>);
  r.add("_foreach_abs", unary<ResultType::kReal>);

  add_binary<Operation::kAdd>(r, "_foreach_add");
  add_binary<Operation::kSubtract>(r, "_foreach_sub");
  add_binary<Operation::kMultiply>(r, "_foreach_mul");
  add_binary<Operation::kDivide>(r, "_foreach_div");
  add_binary<Operation::kMaximum>(r, "_foreach_maximum");
  add_binary<Operation::kMinimum>(r, "_foreach_minimum");
  add_binary<Operation::kMaximum>(r, "_foreach_clamp_min");
  add_binary<Operation::kMinimum>(r, "_foreach_clamp_max");
  r.add("_foreach_add.Tensor", binary<Operation::kAdd>);
  r.add("_foreach_mul.Tensor", binary<Operation::kMultiply>);
  r.add("_foreach_div.Tensor", binary<Operation::kDivide>);

  r.add("_foreach_pow.List", pow_list);
  r.add("_foreach_pow.Scalar", pow_scalar).structural({"exponent"});
  r.add("_foreach_pow.ScalarList", pow_scalar).structural({"exponent"});
  r.add("_foreach_pow.ScalarAndTensor", pow_scalar_and_tensor);

  for (const char* overload : {".Scalar", ".ScalarList", ".Tensor"}) {
    r.add(std::string("_foreach_addcmul") + overload, addc<false>);
    r.add(std::string("_foreach_addcdiv") + overload, addc<true>);
  }
  r.add("_foreach_lerp.List", lerp_list);
  r.add("_foreach_lerp.Scalar", lerp_scalar);
  r.add("_foreach_lerp.ScalarList", lerp_scalar);

  r.add("_foreach_norm.Scalar", norm).structural({"ord"});
  r.add("_foreach_powsum.Scalar", powsum).structural({"ord"});
  r.add("_foreach_max", max);
  r.add("_foreach_clone", clone);
  r.add("_foreach_copy", copy);
  r.add("_foreach_zero", zero);
  r.add("_foreach_mm", mm);
}

}  // namespace torch_tpu::lowering
