#include "stablehlo/elementwise.h"

#include <cmath>
#include <limits>

#include "stablehlo/constants.h"
#include "stablehlo/test_util.h"

namespace torch_tpu::stablehlo {
namespace {

using enum ElementType;
using testing::compile;
using testing::run;
using testing::upload;
using testing::values;

TEST(Elementwise, EveryUnaryOpCompiles) {
  Builder b;
  const Value f = b.parameter({kF32, {4}}), i = b.parameter({kS32, {4}});
  std::vector<Value> results;
#define TORCH_TPU_APPLY(name) results.push_back(is_integer_only(#name) ? name(i) : name(f));
  auto is_integer_only = [](std::string_view name) { return name == "popcnt" || name == "count_leading_zeros"; };
  TORCH_TPU_UNARY_OPS(TORCH_TPU_APPLY)
  TORCH_TPU_CHLO_UNARY_OPS(TORCH_TPU_APPLY)
#undef TORCH_TPU_APPLY
  for (const Value& r : results) EXPECT_EQ(r.dims(), (Dims{4}));
  EXPECT_NO_THROW(compile(b, results));
}

TEST(Elementwise, EveryBinaryOpCompiles) {
  Builder b;
  const Value f = b.parameter({kF32, {4}}), g = b.parameter({kF32, {4}});
  const Value i = b.parameter({kS32, {4}}), j = b.parameter({kS32, {4}});
  auto integers = [](std::string_view name) { return name.starts_with("shift_"); };
  std::vector<Value> results;
#define TORCH_TPU_APPLY(name) results.push_back(integers(#name) ? name(i, j) : name(f, g));
  TORCH_TPU_BINARY_OPS(TORCH_TPU_APPLY)
  TORCH_TPU_CHLO_BINARY_OPS(TORCH_TPU_APPLY)
#undef TORCH_TPU_APPLY
  EXPECT_NO_THROW(compile(b, results));
}

TEST(Elementwise, OperandsMustAgree) {
  Builder b;
  const Value x = b.parameter({kF32, {4}}), y = b.parameter({kF32, {2}}), z = b.parameter({kF64, {4}});
  EXPECT_THROW(add(x, y), TypeError);
  EXPECT_THROW(add(x, z), TypeError);
  EXPECT_THROW(compare(Comparison::kLt, x, y), TypeError);
  EXPECT_THROW(select(x, x, x), TypeError);
  EXPECT_THROW(complex(x, z), TypeError);
  EXPECT_THROW(is_finite(b.parameter({kS32, {1}})), TypeError);
}

TEST(Elementwise, ComparisonsOfEveryKind) {
  Builder b;
  const Value f = constant_vector(b, kF32, std::span<const double>(std::vector<double>{1, std::nan(""), 3}));
  const Value u = constant_vector(b, kU8, std::span<const int64_t>(std::vector<int64_t>{1, 200, 3}));
  const Value s = constant_vector(b, kS8, std::span<const int64_t>(std::vector<int64_t>{1, 200, 3}));
  const Value p = constant_vector(b, kPred, std::span<const int64_t>(std::vector<int64_t>{0, 1, 0}));
  const auto r = run(b, {equal(f, f), not_equal(f, f), less(u, constant_like(u, 100)), less(s, constant_like(s, 100)),
                         greater_equal(p, constant_like(p, 1)), is_nan(f), is_nan(u)});
  using Bools = std::vector<uint8_t>;
  EXPECT_EQ(testing::download<uint8_t>(r[0]), (Bools{1, 0, 1}));
  EXPECT_EQ(testing::download<uint8_t>(r[1]), (Bools{0, 1, 0}));
  EXPECT_EQ(testing::download<uint8_t>(r[2]), (Bools{1, 0, 1}));
  EXPECT_EQ(testing::download<uint8_t>(r[3]), (Bools{1, 1, 1}));
  EXPECT_EQ(testing::download<uint8_t>(r[4]), (Bools{0, 1, 0}));
  EXPECT_EQ(testing::download<uint8_t>(r[5]), (Bools{0, 1, 0}));
  EXPECT_EQ(testing::download<uint8_t>(r[6]), (Bools{0, 0, 0}));
}

TEST(Elementwise, ComplexParts) {
  Builder b;
  const Value z = constant(b, kC64, std::complex<double>(3, -4), {2});
  EXPECT_EQ(abs(z).element(), kF32);
  EXPECT_EQ(real(z).element(), kF32);
  EXPECT_EQ(complex(real(z), imag(z)).element(), kC64);
  const auto r = run(b, {abs(z), real(z), imag(z), imag(real(z)), is_inf(z)});
  EXPECT_EQ(testing::download<float>(r[0]), std::vector<float>(2, 5));
  EXPECT_EQ(testing::download<float>(r[1]), std::vector<float>(2, 3));
  EXPECT_EQ(testing::download<float>(r[2]), std::vector<float>(2, -4));
  EXPECT_EQ(testing::download<float>(r[3]), std::vector<float>(2, 0));
  EXPECT_EQ(testing::download<uint8_t>(r[4]), std::vector<uint8_t>(2, 0));
}

TEST(Elementwise, SelectTakesAScalarPredicate) {
  Builder b;
  const Value p = b.parameter({kPred, {}}), x = constant(b, kF32, 1, {3}), y = constant(b, kF32, 2, {3});
  const pjrt::Buffer no = upload<uint8_t>(kPred, {}, {0});
  EXPECT_EQ(values<float>(b, select(p, x, y), {&no}), std::vector<float>(3, 2));
}

TEST(Elementwise, ClampTakesScalarLimits) {
  Builder b;
  const Value x = constant_vector(b, kF32, std::span<const double>(std::vector<double>{-5, 0.5, 5}));
  EXPECT_EQ(values<float>(b, clamp(constant(b, kF32, 0), x, constant(b, kF32, 1))), (std::vector<float>{0, 0.5, 1}));
}

// The x86 results that ATen's users see, and that XLA's own saturating conversion does not give.
TEST(Convert, FloatToNarrowIntegerWraps) {
  Builder b;
  const Value x = b.parameter({kF32, {6}});
  const auto argument = upload<float>(kF32, {6}, {256.0f, -1.0f, 255.9f, -128.5f, 300.0f, 65537.0f});
  const auto r = run(b, {convert(x, kU8), convert(x, kS8), convert(x, kU16), convert(x, kS32)}, {&argument});
  EXPECT_EQ(testing::download<uint8_t>(r[0]), (std::vector<uint8_t>{0, 255, 255, 128, 44, 1}));
  EXPECT_EQ(testing::download<int8_t>(r[1]), (std::vector<int8_t>{0, -1, -1, -128, 44, 1}));
  EXPECT_EQ(testing::download<uint16_t>(r[2]), (std::vector<uint16_t>{256, 65535, 255, 65408, 300, 1}));
  EXPECT_EQ(testing::download<int32_t>(r[3]), (std::vector<int32_t>{256, -1, 255, -128, 300, 65537}));
}

TEST(Convert, ToBoolIsNotZero) {
  Builder b;
  const Value x = b.parameter({kF32, {4}});
  const auto argument = upload<float>(kF32, {4}, {0.0f, -0.0f, 0.25f, std::nanf("")});
  EXPECT_EQ(values<uint8_t>(b, convert(x, kPred), {&argument}), (std::vector<uint8_t>{0, 0, 1, 1}));
}

TEST(Convert, BoolAndComplex) {
  Builder b;
  const Value p = constant(b, kPred, true, {2}), z = constant(b, kC64, std::complex<double>(2.5, 1), {2});
  const auto r = run(b, {convert(p, kF32), convert(z, kS32), convert(p, kC128), convert(z, kC128), convert(z, kPred)});
  EXPECT_EQ(testing::download<float>(r[0]), std::vector<float>(2, 1));
  EXPECT_EQ(testing::download<int32_t>(r[1]), std::vector<int32_t>(2, 2));
  EXPECT_EQ(testing::download<std::complex<double>>(r[2])[0], std::complex<double>(1, 0));
  EXPECT_EQ(testing::download<std::complex<double>>(r[3])[0], std::complex<double>(2.5, 1));
  EXPECT_EQ(testing::download<uint8_t>(r[4]), std::vector<uint8_t>(2, 1));
}

TEST(Convert, BetweenAllPairsCompiles) {
  for (int from = 0; from < static_cast<int>(kF8E5M2FNUZ); ++from) {
    Builder b;
    const Value x = b.parameter({static_cast<ElementType>(from), {2}});
    SCOPED_TRACE(name_of(x.element()));
    std::vector<Value> results;
    for (int to = 0; to < static_cast<int>(kF8E5M2FNUZ); ++to)
      if (to != from) results.push_back(convert(x, static_cast<ElementType>(to)));
    EXPECT_NO_THROW(compile(b, results));
  }
}

TEST(BitcastConvert, AddsAndConsumesTheMinorDim) {
  Builder b;
  const Value x = b.parameter({kF32, {3}});
  EXPECT_EQ(bitcast_convert(x, kS32).dims(), (Dims{3}));
  EXPECT_EQ(bitcast_convert(x, kS16).dims(), (Dims{3, 2}));
  EXPECT_EQ(bitcast_convert(bitcast_convert(x, kS16), kF32).dims(), (Dims{3}));
  EXPECT_THROW(bitcast_convert(x, kF64), TypeError);
  const auto argument = upload<float>(kF32, {3}, {1.0f, -2.0f, 0.5f});
  const auto r = run(b, {bitcast_convert(x, kU16), bitcast_convert(bitcast_convert(x, kU8), kF32)}, {&argument});
  EXPECT_EQ(testing::download<uint16_t>(r[0]), (std::vector<uint16_t>{0, 0x3F80, 0, 0xC000, 0, 0x3F00}));
  EXPECT_EQ(testing::download<float>(r[1]), testing::download<float>(argument));
}

TEST(ReducePrecision, RoundsToTheFormat) {
  Builder b;
  const Value x = constant(b, kF32, 1.0 + 1.0 / 512);
  EXPECT_EQ(values<float>(b, reduce_precision(x, 8, 7)), (std::vector<float>{1}));
}

}  // namespace
}  // namespace torch_tpu::stablehlo
