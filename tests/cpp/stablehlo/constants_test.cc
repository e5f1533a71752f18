#include "stablehlo/constants.h"

#include <bit>
#include <cmath>
#include <limits>

#include "stablehlo/test_util.h"

namespace torch_tpu::stablehlo {
namespace {

using enum ElementType;
using testing::run;
using testing::values;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Literal, IntegersWrapToTheirWidth) {
  EXPECT_EQ(literal(kS8, int64_t{200}), "-56");
  EXPECT_EQ(literal(kU8, int64_t{-1}), "255");
  EXPECT_EQ(literal(kS16, int64_t{40000}), "-25536");
  EXPECT_EQ(literal(kU16, int64_t{-1}), "65535");
  EXPECT_EQ(literal(kS32, int64_t{1} << 31), "-2147483648");
  EXPECT_EQ(literal(kU32, int64_t{-1}), "4294967295");
  EXPECT_EQ(literal(kS64, std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(literal(kU64, int64_t{-1}), "18446744073709551615");
  EXPECT_EQ(literal(kU64, 9223372036854775808.0), "9223372036854775808");
  EXPECT_EQ(literal(kS32, 2.9), "2");
  EXPECT_EQ(literal(kPred, int64_t{7}), "true");
  EXPECT_EQ(literal(kPred, 0.0), "false");
}

TEST(Literal, InfinitiesAndNansAreBitPatterns) {
  EXPECT_EQ(literal(kF64, kInf), "0x7FF0000000000000");
  EXPECT_EQ(literal(kF64, -kInf), "0xFFF0000000000000");
  EXPECT_EQ(literal(kF32, kInf), "0x7F800000");
  EXPECT_EQ(literal(kF32, -kInf), "0xFF800000");
  EXPECT_EQ(literal(kF32, kNan), "0x7FC00000");
  EXPECT_EQ(literal(kBF16, kInf), "0x7F80");
  EXPECT_EQ(literal(kF16, -kInf), "0xFC00");
  EXPECT_EQ(literal(kF8E5M2, kInf), "0x7C");
  EXPECT_EQ(literal(kF8E4M3FN, kNan), "0x7F");
  EXPECT_EQ(literal(kC64, kInf), "(0x7F800000, 0.00000000000000000e+00)");
  EXPECT_EQ(literal(kF32, 1e300), "0x7F800000");  // overflows float
  EXPECT_EQ(literal(kF32, -1e300), "0xFF800000");
}

// What the plugin makes of a constant has the bits of the number that was asked for.
template <typename T, typename Bits>
void expect_bits(ElementType type, const std::vector<T>& numbers) {
  for (T number : numbers) {
    SCOPED_TRACE(std::to_string(number));
    Builder b;
    const auto splat = constant(b, type, static_cast<double>(number), {2});
    const auto scalar = constant(b, type, static_cast<double>(number));
    const double list[] = {static_cast<double>(number), 0.0};
    const auto vector = constant_vector(b, type, std::span<const double>(list));
    const auto results = run(b, {splat, scalar, vector});
    EXPECT_EQ(testing::download<Bits>(results[0]), std::vector<Bits>(2, std::bit_cast<Bits>(number)));
    EXPECT_EQ(testing::download<Bits>(results[1])[0], std::bit_cast<Bits>(number));
    EXPECT_EQ(testing::download<Bits>(results[2])[0], std::bit_cast<Bits>(number));
  }
}

TEST(Constant, FloatsKeepAllBits) {
  using Limits = std::numeric_limits<float>;
  expect_bits<float, uint32_t>(kF32, {0.0f, -0.0f, 0.1f, 1.0f / 3, Limits::max(), Limits::lowest(), Limits::min(),
                                      Limits::denorm_min(), 16777217.0f, Limits::infinity(), -Limits::infinity()});
}

TEST(Constant, DoublesKeepAllBits) {
  using Limits = std::numeric_limits<double>;
  expect_bits<double, uint64_t>(kF64, {-0.0, 0.1, 1.0 / 3, Limits::max(), Limits::min(), Limits::denorm_min(),
                                       9007199254740993.0, Limits::infinity(), -Limits::infinity()});
}

TEST(Constant, ReducedFloatsRoundToNearestEven) {
  Builder b;
  const double numbers[] = {1.00390625, 1.01171875, 3.3895313892515355e38, -kInf};  // ties, the largest bf16, infinity
  const double halves[] = {1.00048828125, 65504.0, 6e-8, kInf};
  const auto results = run(b, {constant_vector(b, kBF16, std::span<const double>(numbers)),
                               constant_vector(b, kF16, std::span<const double>(halves))});
  EXPECT_EQ(testing::download<uint16_t>(results[0]), (std::vector<uint16_t>{0x3F80, 0x3F82, 0x7F7F, 0xFF80}));
  EXPECT_EQ(testing::download<uint16_t>(results[1]), (std::vector<uint16_t>{0x3C00, 0x7BFF, 0x0001, 0x7C00}));
}

TEST(Constant, NumbersPastTheLargestReducedFloatAreInfinite) {
  Builder b;
  const auto results = run(b, {constant(b, kF16, 1e6), constant(b, kBF16, -3.5e38), constant(b, kF16, 65520.0)});
  EXPECT_EQ(testing::download<uint16_t>(results[0])[0], 0x7C00);
  EXPECT_EQ(testing::download<uint16_t>(results[1])[0], 0xFF80);
  EXPECT_EQ(testing::download<uint16_t>(results[2])[0], 0x7C00);
}

TEST(Constant, NanIsNan) {
  Builder b;
  const auto results = run(b, {quiet_nan(b, kF32), quiet_nan(b, kF64), quiet_nan(b, kBF16)});
  EXPECT_TRUE(std::isnan(testing::download<float>(results[0])[0]));
  EXPECT_TRUE(std::isnan(testing::download<double>(results[1])[0]));
  EXPECT_EQ(testing::download<uint16_t>(results[2])[0] & 0x7FC0, 0x7FC0);
}

TEST(Constant, Integers) {
  Builder b;
  const int64_t list[] = {0, -1, 127, 128};
  const auto results = run(b, {constant_vector(b, kS8, std::span<const int64_t>(list)),
                               constant_vector(b, kU64, std::span<const int64_t>(list)),
                               constant_vector(b, kPred, std::span<const int64_t>(list)),
                               constant(b, kS64, std::numeric_limits<int64_t>::min(), {1, 2})});
  EXPECT_EQ(testing::download<int8_t>(results[0]), (std::vector<int8_t>{0, -1, 127, -128}));
  EXPECT_EQ(testing::download<uint64_t>(results[1]), (std::vector<uint64_t>{0, ~uint64_t{0}, 127, 128}));
  EXPECT_EQ(testing::download<uint8_t>(results[2]), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(testing::download<int64_t>(results[3]), std::vector<int64_t>(2, std::numeric_limits<int64_t>::min()));
}

TEST(Constant, Complex) {
  Builder b;
  const auto results = run(
      b, {constant(b, kC64, std::complex<double>(1.5, -2)), constant(b, kC128, std::complex<double>(kInf, -kInf), {1}),
          constant(b, kC64, 3), constant(b, kF32, std::complex<double>(4, 5))});
  EXPECT_EQ(testing::download<std::complex<float>>(results[0])[0], std::complex<float>(1.5f, -2));
  EXPECT_EQ(testing::download<std::complex<double>>(results[1])[0], std::complex<double>(kInf, -kInf));
  EXPECT_EQ(testing::download<std::complex<float>>(results[2])[0], std::complex<float>(3, 0));
  EXPECT_EQ(testing::download<float>(results[3])[0], 4.0f);
}

TEST(Constant, WithoutElements) {
  Builder b;
  const auto results = run(b, {constant(b, kF32, 1.0, {0}), constant(b, kS64, 1, {2, 0}),
                               constant_vector(b, kF32, std::span<const double>()), constant(b, kC64, 1, {0})});
  for (const pjrt::Buffer& r : results) EXPECT_EQ(r.on_device_size(), 0u);
}

TEST(Limits, OfIntegers) {
  EXPECT_EQ(integer_min(kS8), -128);
  EXPECT_EQ(integer_max(kS8), 127u);
  EXPECT_EQ(integer_min(kS64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(integer_max(kS64), (uint64_t{1} << 63) - 1);
  EXPECT_EQ(integer_min(kU32), 0);
  EXPECT_EQ(integer_max(kU32), 4294967295u);
  EXPECT_EQ(integer_max(kU64), ~uint64_t{0});
  EXPECT_EQ(integer_min(kPred), 0);
  EXPECT_EQ(integer_max(kPred), 1u);
}

TEST(Limits, OfFloats) {
  EXPECT_EQ(finite_max(kF16), 65504.0);
  EXPECT_EQ(finite_max(kF32), std::numeric_limits<float>::max());
  EXPECT_EQ(epsilon(kF16), 0.0009765625);
  EXPECT_EQ(smallest_normal(kF32), std::numeric_limits<float>::min());
  EXPECT_THROW(finite_max(kS32), TypeError);
}

TEST(Limits, LowestAndHighestCompileForEveryType) {
  Builder b;
  const auto results = run(b, {lowest(b, kF32), highest(b, kBF16), lowest(b, kS32), highest(b, kU64), lowest(b, kPred),
                               highest(b, kPred), lowest(b, kF8E5M2)});
  EXPECT_EQ(testing::download<float>(results[0])[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(testing::download<uint16_t>(results[1])[0], 0x7F80);
  EXPECT_EQ(testing::download<int32_t>(results[2])[0], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(testing::download<uint64_t>(results[3])[0], ~uint64_t{0});
  EXPECT_EQ(testing::download<uint8_t>(results[4])[0], 0);
  EXPECT_EQ(testing::download<uint8_t>(results[5])[0], 1);
  EXPECT_EQ(testing::download<uint8_t>(results[6])[0], 0xFC);
}

TEST(Iota, CountsAlongOneDimension) {
  Builder b;
  EXPECT_EQ(values<int32_t>(b, iota(b, kS32, {2, 3}, 1)), (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  Builder c;
  EXPECT_EQ(values<float>(c, iota(c, kF32, {2, 3}, 0)), (std::vector<float>{0, 0, 0, 1, 1, 1}));
  EXPECT_THROW(iota(c, kPred, {2}, 0), TypeError);
}

}  // namespace
}  // namespace torch_tpu::stablehlo
