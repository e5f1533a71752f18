#include "stablehlo/builder.h"

#include <cmath>

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"
#include "stablehlo/structured.h"
#include "stablehlo/test_util.h"

namespace torch_tpu::stablehlo {
namespace {

using enum ElementType;
using testing::compile;
using testing::run;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

TEST(Types, PrintAsMlirDoes) {
  EXPECT_EQ(to_string(TensorType{kF32, {}}), "tensor<f32>");
  EXPECT_EQ(to_string(TensorType{kBF16, {2, 3}}), "tensor<2x3xbf16>");
  EXPECT_EQ(to_string(TensorType{kPred, {0}}), "tensor<0xi1>");
  EXPECT_EQ(to_string(TensorType{kU8, {1}}), "tensor<1xui8>");
  EXPECT_EQ(to_string(TensorType{kC128, {4}}), "tensor<4xcomplex<f64>>");
  EXPECT_EQ((TensorType{kF32, {2, 0, 3}}.numel()), 0);
  EXPECT_EQ((TensorType{kF32, {}}.numel()), 1);
}

TEST(Types, AttributeLists) {
  EXPECT_EQ(i64_array({}), "array<i64>");
  EXPECT_EQ(i64_array({1, -2}), "array<i64: 1, -2>");
  EXPECT_EQ(bracket_list(Dims{}), "[]");
  EXPECT_EQ(bracket_list(Dims{3, 4}), "[3, 4]");
}

TEST(Types, EveryElementTypeCompilesAsAParameter) {
  for (int i = 0; i < static_cast<int>(kInvalid); ++i) {
    Builder b;
    const auto type = static_cast<ElementType>(i);
    if (type == kF8E8M0FNU) continue;  // newer than the plugin
    SCOPED_TRACE(name_of(type));
    const Value x = b.parameter({type, {2}});
    EXPECT_NO_THROW(compile(b, std::span<const Value>(&x, 1)));
  }
}

TEST(Builder, PrintsAModule) {
  Builder b;
  const Value x = b.parameter({kF32, {2}});
  const Value results[] = {add(x, x)};
  EXPECT_EQ(b.finish(results),
            "module @main {\n"
            "func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {\n"
            "%1 = \"stablehlo.add\"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n"
            "\"func.return\"(%1) : (tensor<2xf32>) -> ()\n"
            "}\n}\n");
}

TEST(Builder, EqualCallsPrintEqualText) {
  auto text = [] {
    Builder b;
    const Value x = b.parameter({kF32, {4}});
    const Value results[] = {reduce_sum(exponential(x) * constant_like(x, 2) * x, {0})};
    return b.finish(results);
  };
  EXPECT_EQ(text(), text());
}

TEST(Builder, EqualPureOpsAreEmittedOnce) {
  Builder b;
  const Value x = b.parameter({kF32, {4}});
  EXPECT_EQ(tanh(x).id(), tanh(x).id());
  EXPECT_EQ(constant(b, kF32, 1.5).id(), constant(b, kF32, 1.5).id());
  EXPECT_NE(constant(b, kF32, 1).id(), constant(b, kF32, 2).id());
  EXPECT_NE(constant(b, kF32, 1).id(), constant(b, kF64, 1).id());
  EXPECT_NE(constant(b, kF32, 1).id(), constant(b, kF32, 1, {2}).id());
  EXPECT_NE(constant(b, kF32, 0.0).id(), constant(b, kF32, -0.0).id());
  const auto first = rng_bit_generator(b.parameter({kU64, {2}}), kU32, {4});
  EXPECT_EQ(first.second.id(), first.first.id() + 1);
}

// As XLA's cost analysis has it, which decides where its CPU client runs a program.
TEST(Builder, CountsFlops) {
  Builder b;
  const Value x = b.parameter({kF32, {4, 8}}), y = b.parameter({kF32, {8, 5}});
  const Value product = dot_general(x, y, {.lhs_contract = {1}, .rhs_contract = {0}}, DotPrecision::kHighest);
  EXPECT_EQ(b.flops(), 2 * 4 * 5 * 8);
  const Value results[] = {product, tanh(x * x), reduce_sum(x, {0})};
  EXPECT_EQ(b.flops(), 2 * 4 * 5 * 8 + 32 + 32 + 1);
  const auto costs = compile(b, results)->executable().cost_analysis();
  EXPECT_LE(costs.at("flops"), b.flops());
  EXPECT_GE(costs.at("flops"), b.flops() - 10);
  top_k(x, 2);
  EXPECT_TRUE(std::isinf(b.flops()));
}

TEST(Builder, OpsOfSeveralResultsAreSharedAsAWhole) {
  Builder b;
  const Value x = b.parameter({kF32, {4}});
  const auto first = top_k(x, 2), second = top_k(x, 2);
  EXPECT_EQ(first[0].id(), second[0].id());
  EXPECT_EQ(first[1].id(), second[1].id());
  EXPECT_NE(top_k(x, 3)[0].id(), first[0].id());
}

TEST(Builder, CustomCallsAreNeverShared) {
  Builder b;
  const Value x = b.parameter({kF32, {4}});
  EXPECT_NE(custom_call("f", {&x, 1}, {&x.type(), 1})[0].id(), custom_call("f", {&x, 1}, {&x.type(), 1})[0].id());
}

// An op that a region emitted is out of scope after it: emitting it again must give a new one.
TEST(Builder, SharingStopsAtRegions) {
  Builder b;
  const Value p = b.parameter({kPred, {}}), x = b.parameter({kF32, {4}});
  const Value branch =
      if_then_else(p, [&] { return std::vector<Value>{tanh(x)}; }, [&] { return std::vector<Value>{sine(x)}; })[0];
  const Value outside = tanh(x);
  const Value results[] = {add(branch, outside)};
  EXPECT_EQ(count(b.finish(results), "stablehlo.tanh"), 2u);
  EXPECT_NO_THROW(compile(b, results));
}

TEST(Builder, RegionsNest) {
  Builder b;
  const Value n = b.parameter({kS32, {}});
  // Sum over i < n of (1 if i is even else the sum over j < i of 1).
  const Value init[] = {constant(b, kS32, 0), constant(b, kS32, 0)};
  const auto outer = while_loop(
      init, [&](std::span<const Value> s) { return less(s[0], n); },
      [&](std::span<const Value> s) {
        const Value i = s[0];
        const Value even = equal(remainder(i, constant_like(i, 2)), constant_like(i, 0));
        const Value term = if_then_else(
            even, [&] { return std::vector<Value>{constant(b, kS32, 1)}; },
            [&] {
              const Value start[] = {constant(b, kS32, 0), constant(b, kS32, 0)};
              return std::vector<Value>{while_loop(
                  start, [&](std::span<const Value> t) { return less(t[0], i); },
                  [&](std::span<const Value> t) {
                    return std::vector<Value>{t[0] + constant_like(t[0], 1), t[1] + constant_like(t[1], 1)};
                  })[1]};
            })[0];
        return std::vector<Value>{i + constant_like(i, 1), s[1] + term};
      });
  const pjrt::Buffer six = testing::upload<int32_t>(kS32, {}, {6});
  EXPECT_EQ(testing::values<int32_t>(b, outer[1], {&six}), (std::vector<int32_t>{3 + 1 + 3 + 5}));
}

TEST(Builder, AliasedParametersAreDonated) {
  Builder b;
  const Value x = b.parameter({kF32, {8}});
  b.alias_parameter(0, 0);
  const Value results[] = {add(x, constant_like(x, 1))};
  EXPECT_NE(b.finish(results).find("{tf.aliasing_output = 0 : i32}"), std::string::npos);
  auto program = compile(b, results);
  const pjrt::Buffer argument = testing::upload<float>(kF32, {8}, std::vector<float>(8, 1));
  PJRT_Buffer* arguments[] = {argument.get()};
  PJRT_Buffer* output[1];
  program->execute(arguments, output, {.device = pjrt::testing::device(0).get()});
  EXPECT_TRUE(argument.is_deleted());
  EXPECT_EQ(testing::download<float>(pjrt::Buffer(pjrt::testing::cpu_client()->api(), output[0])),
            std::vector<float>(8, 2));
}

TEST(Builder, CountsOps) {
  Builder b;
  const Value x = b.parameter({kF32, {4}});
  EXPECT_EQ(b.num_ops(), 0);
  tanh(x);
  tanh(x);
  EXPECT_EQ(b.num_ops(), 1);
  EXPECT_EQ(b.num_parameters(), 1);
}

TEST(Builder, RefusesValuesOfAnotherBuilder) {
  Builder a, b;
  const Value x = a.parameter({kF32, {2}}), y = b.parameter({kF32, {2}});
  EXPECT_THROW(add(x, y), TypeError);
}

TEST(Builder, NoResultsAndNoParameters) {
  Builder b;
  EXPECT_TRUE(run(b, {}).empty());
}

}  // namespace
}  // namespace torch_tpu::stablehlo
