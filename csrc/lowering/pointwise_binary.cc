// Arithmetic of two and three values, in the promoted type.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/helpers.h"
#include "lowering/math.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

struct Pair {
  Value x, y;
};

Pair operands(const Op& op, std::string_view a, std::string_view b, ElementType as) {
  Pair p{operand(op, a, as), operand(op, b, as)};
  broadcast_all({&p.x, &p.y});
  return p;
}
Pair arithmetic_operands(const Op& op) {
  return operands(op, "self", "other", opmath_type(common_type(op, {"self", "other"})));
}
Pair float_operands(const Op& op) {
  return operands(op, "self", "other", opmath_type(common_float_type(op, {"self", "other"})));
}

// x + alpha y; on bool, or.
Value add_scaled(const Op& op, Value x, Value y) {
  if (!op.scalar_equals("alpha", 1)) {
    Value alpha = like(y, op.scalar("alpha", y.element()));
    y = is_bool(y.element()) ? logical_and(alpha, y) : alpha * y;
  }
  return is_bool(x.element()) ? logical_or(x, y) : x + y;
}
// x - alpha y
Value subtract_scaled(const Op& op, Value x, Value y) {
  if (!op.scalar_equals("alpha", 1)) y = like(y, op.scalar("alpha", y.element())) * y;
  return x - y;
}

Value add(Op& op) {
  auto [x, y] = arithmetic_operands(op);
  return add_scaled(op, x, y);
}
Value add_relu(Op& op) {
  auto [x, y] = arithmetic_operands(op);
  Value sum = add_scaled(op, x, y);
  return maximum(sum, constant_like(sum, 0));
}
Value sub(Op& op) {
  auto [x, y] = arithmetic_operands(op);
  return subtract_scaled(op, x, y);
}
Value rsub(Op& op) {
  auto [x, y] = arithmetic_operands(op);
  return subtract_scaled(op, y, x);
}
Value mul(Op& op) {
  auto [x, y] = arithmetic_operands(op);
  return is_bool(x.element()) ? logical_and(x, y) : x * y;
}
Value div(Op& op) {
  auto [x, y] = float_operands(op);
  return x / y;
}

void require_numbers(const Op& op, ElementType t, bool complex_too = false) {
  if (is_bool(t) || (is_complex(t) && !complex_too))
    throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(t) + "'");
}

// Integers have no quotient by zero: the CPU raises.
void check_divisor(const Op& op, Value y) {
  if (is_integer(y.element()) && y.numel() > 0) op.context().report(Fault::kDivisionByZero, any(equal(y, 0)));
}

using Division = Value (*)(const Target&, Value, Value);

template <Division divide>
Value division(Op& op) {
  auto [x, y] = arithmetic_operands(op);
  require_numbers(op, x.element());
  check_divisor(op, y);
  return divide(op.target(), x, y);
}

Value div_mode(Op& op) {
  if (!op.has("rounding_mode")) return div(op);
  return op.string("rounding_mode") == "floor" ? division<floor_divide>(op) : division<truncating_divide>(op);
}

// fmod: the remainder with the dividend's sign.
Value c_remainder(const Target& target, Value x, Value y) {
  return is_integer(x.element()) ? divide_integers(target, x, y).remainder : remainder(x, y);
}

// --- powers

// x^n by squaring, n >= 0.
Value integer_power(Value x, uint64_t n) {
  Value result;
  for (Value square = x; n != 0; n >>= 1) {
    if (n & 1) result = result.defined() ? result * square : square;
    if (n > 1) square = square * square;
  }
  return result.defined() ? result : constant_like(x, 1);
}

// x^y modulo the width, y >= 0: one squaring a bit, eight bits at a time until none is left. XLA's own integer power
// stops after the first bits; 63 steps in a row take TPUs seconds to compile.
Value wrapping_power(Value x, Value y) {
  constexpr int kBits = 8;  // no integer is narrower
  auto state = while_loop(
      std::vector<Value>{constant_like(x, 1), x, y},  // result, square, exponent left
      [](std::span<const Value> v) { return any(not_equal(v[2], 0)); },
      [](std::span<const Value> v) {
        Value result = v[0], square = v[1], left = v[2];
        for (int k = 0; k < kBits; ++k) {
          result = select(not_equal(logical_and(left, constant_like(left, 1)), 0), result * square, result);
          square = square * square;
          left = shift_right_logical(left, constant_like(left, 1));
        }
        return std::vector<Value>{result, square, left};
      });
  return state[0];
}

Value power_of(Value x, Value y) {
  if (is_complex(x.element())) {
    // Zero has no logarithm: 0^0 is 1 and 0^y is 0 where the real part of y is positive.
    Value zero = logical_and(stablehlo::equal(x, constant_like(x, 0)), greater(real(y), 0));
    Value result = select(zero, constant_like(x, 0), power(x, y));
    return select(stablehlo::equal(y, constant_like(y, 0)), constant_like(x, 1), result);
  }
  if (!is_integer(x.element())) return power(x, y);
  if (is_unsigned_integer(y.element())) return wrapping_power(x, y);
  // Negative exponents: the reciprocal, rounded toward zero.
  Value odd = not_equal(logical_and(y, constant_like(y, 1)), 0);
  Value reciprocal = select(equal(x, 1), x, constant_like(x, 0));
  reciprocal = select(equal(x, -1), select(odd, x, constant_like(x, 1)), reciprocal);
  return select(less(y, 0), reciprocal, wrapping_power(x, y));
}

Value pow_tensor_tensor(Op& op) {
  auto [x, y] = operands(op, "self", "exponent", opmath_type(common_type(op, {"self", "exponent"})));
  require_numbers(op, x.element(), true);
  return power_of(x, y);
}

// The exponent is part of the program: the common ones have exact forms of their own, as in ATen.
Value pow_tensor_scalar(Op& op) {
  const ElementType t = opmath_type(common_type(op, {"self", "exponent"}));
  Value x = op.tensor("self", t);
  const std::complex<double> e = op.constant_complex("exponent");
  if (e == 0.0) return constant_like(x, 1);
  if (e == 1.0) return x;
  if (is_bool(t)) throw Unsupported("\"pow\" not implemented for 'bool'");
  if (is_integer(t)) {
    const int64_t n = op.constant_integer("exponent");
    if (n < 0) throw CallError("Integers to negative integer powers are not allowed.");
    return integer_power(x, static_cast<uint64_t>(n));
  }
  if (e == 0.5) return sqrt(x);
  if (e == 2.0) return x * x;
  if (e == 3.0) return x * x * x;
  auto inverse = [](Value v) { return divide(constant_like(v, 1), v); };
  if (e == -0.5) return is_complex(t) ? inverse(sqrt(x)) : rsqrt(x);
  if (e == -1.0) return inverse(x);
  if (e == -2.0) return inverse(x * x);
  return power_of(x, constant(op.builder(), t, e, x.dims()));
}

Value pow_scalar(Op& op) { return pow_tensor_tensor(op); }

Value ldexp(Op& op) {
  // self * 2^other, where 2^other is a float op of its own.
  const ElementType exponent = opmath_type(to_float(op, op.element("other")));
  Value p = op.tensor("other", exponent);
  p = power(constant_like(p, 2), p);
  const ElementType t = opmath_type(op.result_known() ? op.result_element() : common_float_type(op, {"self", "other"}));
  Value x = op.tensor("self", t), y = convert(p, t);
  broadcast_all({&x, &y});
  return x * y;
}

// --- three values

Value lerp(Op& op) {
  const ElementType t = opmath_type(op.element("self"));
  if (!is_floating(t) && !is_complex(t))
    throw Unsupported("\"" + op.name() + "\" not implemented for '" + name_of(t) + "'");
  Value x = op.tensor("self", t), end = op.tensor("end", t), weight = operand(op, "weight", t);
  broadcast_all({&x, &end, &weight});
  Value size = is_complex(t) ? abs(weight) : weight;
  Value near_start = is_complex(t) ? less(size, 0.5) : less(abs(weight), 0.5);
  Value difference = end - x;
  Value one = constant_like(weight, 1);
  return select(near_start, x + weight * difference, end - difference * (one - weight));
}

// self + value t1 t2 and self + value t1 / t2
template <bool kDivide>
Value add_product(Op& op) {
  const ElementType t = opmath_type(common_type(op, {"self", "tensor1", "tensor2"}));
  // The meta kernel says so too, but is not asked by foreach.
  if (kDivide && !is_floating(t) && !is_complex(t))
    throw CallError(
        "Integer division with addcdiv is no longer supported. The historic addcdiv behavior can be implemented as "
        "(input + value * torch.div(tensor1, tensor2, rounding_mode='trunc')), and true division as (input + value * "
        "torch.div(tensor1, tensor2)).");
  if (is_bool(t)) throw Unsupported("\"" + op.name() + "\" not implemented for 'bool'");
  Value x = op.tensor("self", t), a = op.tensor("tensor1", t), b = op.tensor("tensor2", t);
  broadcast_all({&x, &a, &b});
  if (!op.scalar_equals("value", 1)) a = like(a, op.scalar("value", t)) * a;
  return x + (kDivide ? a / b : a * b);
}

Value atan2(Op& op) {
  auto [y, x] = float_operands(op);
  return stablehlo::atan2(y, x);
}

Value hypot(Op& op) {
  const ElementType t = opmath_type(common_type(op, {"self", "other"}));
  auto [x, y] = operands(op, "self", "other", t);
  Value a = abs(x), b = abs(y);
  Value high = select(greater(b, a), b, a), low = select(greater(b, a), a, b);
  Value ratio = low / select(equal(high, 0), 1.0, high);
  Value result = high * sqrt(ratio * ratio + 1.0);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // An infinite side wins over NaN, as in C.
  result = select(logical_or(is_nan(a), is_nan(b)), std::nan(""), result);
  return select(logical_or(equal(a, kInf), equal(b, kInf)), kInf, result);
}

Value copysign(Op& op) {
  const ElementType t = common_float_type(op, {"self", "other"});
  auto [x, y] = operands(op, "self", "other", t);
  return copy_sign(op.target(), x, y);
}

Value nextafter(Op& op) {
  auto [x, y] = operands(op, "self", "other", common_type(op, {"self", "other"}));
  return next_after(x, y);
}

Value make_complex(Op& op) {
  const ElementType t = opmath_type(common_type(op, {"real", "imag"}));
  auto [re, im] = operands(op, "real", "imag", t);
  return stablehlo::complex(re, im);
}

Value polar(Op& op) {
  const ElementType t = opmath_type(common_type(op, {"abs", "angle"}));
  auto [modulus, angle] = operands(op, "abs", "angle", t);
  return stablehlo::complex(modulus * cosine(angle), modulus * sine(angle));
}

}  // namespace

void register_pointwise_binary(Registry& r) {
  for (const char* form : {"Tensor", "Scalar"}) {
    const std::string suffix = std::string(".") + form;
    r.add("add" + suffix, add);
    r.add("sub" + suffix, sub);
    r.add("rsub" + suffix, rsub);
    r.add("mul" + suffix, mul);
    r.add("div" + suffix, div);
    r.add("div" + suffix + "_mode", div_mode);
    r.add("remainder" + suffix, division<python_remainder>);
    r.add("fmod" + suffix, division<c_remainder>);
    r.add("copysign" + suffix, copysign);
    r.add("lerp" + suffix, lerp);
    r.add("_add_relu" + suffix, add_relu).like("self");
  }
  r.add("remainder.Scalar_Tensor", division<python_remainder>);
  r.add("floor_divide", division<floor_divide>);
  r.add("floor_divide.Scalar", division<floor_divide>);
  r.add("pow.Tensor_Tensor", pow_tensor_tensor);
  r.add("pow.Tensor_Scalar", pow_tensor_scalar).structural({"exponent"});
  r.add("pow.Scalar", pow_scalar);
  r.add("ldexp.Tensor", ldexp);
  r.add("addcmul", add_product<false>);
  r.add("addcdiv", add_product<true>);
  r.add("atan2", atan2);
  r.add("hypot", hypot);
  r.add("nextafter", nextafter);
  r.add("complex", make_complex);
  r.add("polar", polar);
  register_pointwise_compare(r);
  register_special_binary(r);
  register_polynomial(r);
}

}  // namespace torch_tpu::lowering
