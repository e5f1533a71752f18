// Comparisons, logic, bits, selection and limits.
#include <limits>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::Comparison;

struct Pair {
  Value x, y;
};

// In the promoted type itself: a number is rounded to the tensor's type before it is compared, as on CPU.
Pair promoted(const Op& op, std::string_view a = "self", std::string_view b = "other") {
  const ElementType t = common_type(op, {a, b});
  Pair p{operand(op, a, t), operand(op, b, t)};
  broadcast_all({&p.x, &p.y});
  return p;
}

void require_ordered(const Op& op, ElementType t) {
  if (is_complex(t)) throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(t) + "'");
}

template <Comparison kDirection>
Value comparison(Op& op) {
  auto [x, y] = promoted(op);
  if (kDirection != Comparison::kEq && kDirection != Comparison::kNe) require_ordered(op, x.element());
  return compare(kDirection, x, y);
}

using Binary = Value (*)(Value, Value);

template <Binary F>
Value logical(Op& op) {
  Value x = op.tensor("self", ElementType::kPred), y = op.tensor("other", ElementType::kPred);
  broadcast_all({&x, &y});
  return F(x, y);
}

template <Binary F>
Value bitwise(Op& op) {
  auto [x, y] = promoted(op);
  if (!is_integer(x.element()) && !is_bool(x.element()))
    throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(x.element()) + "'");
  return F(x, y);
}

// Shifts by a negative amount or by the width and more give 0, to the right the sign.
template <bool kLeft>
Value shift(Op& op) {
  auto [x, y] = promoted(op);
  const ElementType t = x.element();
  if (!is_integer(t))
    throw Unsupported(std::string(kLeft ? "\"lshift_cpu\"" : "\"rshift_cpu\"") + " not implemented for '" + name_of(t) +
                      "'");
  const int64_t width = static_cast<int64_t>(byte_size(t)) * 8;
  Value outside = greater_equal(y, static_cast<double>(width));
  if (is_signed_integer(t)) outside = logical_or(outside, less(y, 0));
  Value zero = constant_like(x, 0);
  Value amount = select(outside, zero, y);
  if (kLeft) return select(outside, zero, shift_left(x, amount));
  if (is_unsigned_integer(t)) return select(outside, zero, shift_right_logical(x, amount));
  return shift_right_arithmetic(x, select(outside, constant_like(y, width - 1), y));
}

Value where(Op& op) {
  const ElementType t = common_type(op, {"self", "other"});
  Value condition = op.tensor("condition", ElementType::kPred);
  Value x = operand(op, "self", t), y = operand(op, "other", t);
  broadcast_all({&condition, &x, &y});
  return select(condition, x, y);
}

Value maximum(Op& op) {
  auto [x, y] = promoted(op);
  require_ordered(op, x.element());
  return stablehlo::maximum(x, y);
}
Value minimum(Op& op) {
  auto [x, y] = promoted(op);
  require_ordered(op, x.element());
  return stablehlo::minimum(x, y);
}

// NaN only where both are.
template <bool kMax>
Value ignoring_nan(Op& op) {
  auto [x, y] = promoted(op);
  require_ordered(op, x.element());
  Value both = kMax ? stablehlo::maximum(x, y) : stablehlo::minimum(x, y);
  if (!is_floating(x.element())) return both;
  return select(is_nan(x), y, select(is_nan(y), x, both));
}

// min(max(x, low), high): NaN anywhere gives NaN, and the upper limit wins.
Value limit(Op& op, std::string_view low, std::string_view high) {
  const ElementType t = low.empty()    ? common_type(op, {"self", high})
                        : high.empty() ? common_type(op, {"self", low})
                                       : common_type(op, {"self", low, high});
  require_ordered(op, t);
  Value x = op.tensor("self", t);
  for (std::string_view arg : {low, high}) {
    if (arg.empty() || !op.has(arg)) continue;
    Value bound = operand(op, arg, t);
    broadcast_all({&x, &bound});
    x = arg == low ? stablehlo::maximum(x, bound) : stablehlo::minimum(x, bound);
  }
  return x;
}
Value clamp(Op& op) { return limit(op, "min", "max"); }
Value clamp_min(Op& op) { return limit(op, "min", ""); }
Value clamp_max(Op& op) { return limit(op, "", "max"); }

Value heaviside(Op& op) {
  Value x = op.tensor("self"), values = op.tensor("values", x.element());
  broadcast_all({&x, &values});
  if (is_bool(x.element())) return logical_or(x, values);
  return select(equal(x, 0), values, convert(greater(x, 0), x.element()));
}

}  // namespace

void register_pointwise_compare(Registry& r) {
  for (const char* form : {".Tensor", ".Scalar"}) {
    const std::string suffix = form;
    r.add("eq" + suffix, comparison<Comparison::kEq>);
    r.add("ne" + suffix, comparison<Comparison::kNe>);
    r.add("lt" + suffix, comparison<Comparison::kLt>);
    r.add("le" + suffix, comparison<Comparison::kLe>);
    r.add("gt" + suffix, comparison<Comparison::kGt>);
    r.add("ge" + suffix, comparison<Comparison::kGe>);
    r.add("__lshift__" + suffix, shift<true>).like("self");
    r.add("__rshift__" + suffix, shift<false>).like("self");
    r.add("__ilshift__" + suffix, shift<true>);
    r.add("__irshift__" + suffix, shift<false>);
  }
  for (const char* form : {".Tensor", ".Scalar", ".Scalar_Tensor"}) {
    const std::string suffix = form;
    r.add("bitwise_and" + suffix, bitwise<stablehlo::logical_and>);
    r.add("bitwise_or" + suffix, bitwise<stablehlo::logical_or>);
    r.add("bitwise_xor" + suffix, bitwise<stablehlo::logical_xor>);
  }
  for (const char* form : {".Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}) {
    const std::string suffix = form;
    r.add("bitwise_left_shift" + suffix, shift<true>);
    r.add("bitwise_right_shift" + suffix, shift<false>);
  }
  r.add("logical_and", logical<stablehlo::logical_and>);
  r.add("logical_or", logical<stablehlo::logical_or>);
  r.add("logical_xor", logical<stablehlo::logical_xor>);
  r.add("where.self", where);
  r.add("maximum", maximum);
  r.add("minimum", minimum);
  r.add("fmax", ignoring_nan<true>);
  r.add("fmin", ignoring_nan<false>);
  r.add("clamp", clamp);
  r.add("clamp.Tensor", clamp);
  r.add("clamp_min", clamp_min);
  r.add("clamp_min.Tensor", clamp_min);
  r.add("clamp_max", clamp_max);
  r.add("clamp_max.Tensor", clamp_max);
  r.add("heaviside", heaviside);
}

}  // namespace torch_tpu::lowering
