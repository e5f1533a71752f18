#include "stablehlo/fusion_cuts.h"

#include <cmath>

#include "stablehlo/elementwise.h"
#include "stablehlo/structured.h"
#include "stablehlo/test_util.h"

namespace torch_tpu::stablehlo {
namespace {

using enum ElementType;
using testing::download;
using testing::run;
using testing::upload;

size_t cuts_in(const std::string& text) {
  size_t n = 0;
  for (size_t at = text.find("func.call"); at != std::string::npos; at = text.find("func.call", at + 1)) ++n;
  return n;
}

Value doubled(Value x, int times) {
  for (int i = 0; i < times; ++i) x = x + x;  // one op, used twice
  return x;
}

TEST(FusionCuts, AreAsFarApartAsTheLimit) {
  for (const auto& [ops, cuts] : {std::pair{10, 0u}, {11, 1u}, {22, 2u}, {50, 4u}}) {
    Builder b;
    b.set_fusion_limit(10);
    const Value results[] = {doubled(b.parameter({kF32, {4}}), ops)};
    EXPECT_EQ(cuts_in(b.finish(results)), cuts) << ops;
  }
}

TEST(FusionCuts, NoneWithoutALimit) {
  Builder b;
  const Value results[] = {doubled(b.parameter({kF32, {4}}), 100)};
  EXPECT_EQ(cuts_in(b.finish(results)), 0u);
}

TEST(FusionCuts, BranchesCountTogether) {
  Builder b;
  b.set_fusion_limit(10);
  const Value x = b.parameter({kF32, {4}}), y = b.parameter({kF32, {4}});
  const Value results[] = {doubled(x, 5) * doubled(y, 5)};
  EXPECT_EQ(cuts_in(b.finish(results)), 1u);
}

TEST(FusionCuts, ProductsAreKernelsOfTheirOwn) {
  Builder b;
  b.set_fusion_limit(10);
  Value x = b.parameter({kF32, {4, 4}});
  for (int i = 0; i < 5; ++i)
    x = dot_general(doubled(x, 8), x, {.lhs_contract = {1}, .rhs_contract = {0}}, DotPrecision::kHighest);
  EXPECT_EQ(cuts_in(b.finish({&x, 1})), 0u);
}

TEST(FusionCuts, RegionsAreLeftAlone) {
  Builder b;
  b.set_fusion_limit(10);
  const Value x = b.parameter({kF32, {4}}), p = b.parameter({kPred, {}});
  const Value results[] = {
      if_then_else(p, [&] { return std::vector<Value>{doubled(x, 30)}; }, [&] { return std::vector<Value>{x}; })[0]};
  EXPECT_EQ(cuts_in(b.finish(results)), 0u);
}

TEST(FusionCuts, ValuesAreTheSame) {
  Builder b;
  b.set_fusion_limit(10);
  const auto in = upload<float>(kF32, {2}, {1, -3});
  const Value x = doubled(b.parameter({kF32, {2}}), 25);
  const auto bits = rng_bit_generator(b.parameter({kU64, {2}}), kU32, {4});  // two results, cut off at once
  const auto state = upload<uint64_t>(kU64, {2}, {1, 2});
  const auto results = run(b, {x, tanh(x), bits.second}, {&in, &state});
  EXPECT_EQ(download<float>(results[0]), (std::vector<float>{std::exp2(25.0f), -3 * std::exp2(25.0f)}));
  EXPECT_EQ(download<float>(results[1]), (std::vector<float>{1, -1}));

  Builder plain;
  const auto expected = rng_bit_generator(plain.parameter({kU64, {2}}), kU32, {4}).second;
  EXPECT_EQ(download<uint32_t>(results[2]), download<uint32_t>(run(plain, {expected}, {&state})[0]));
}

}  // namespace
}  // namespace torch_tpu::stablehlo
