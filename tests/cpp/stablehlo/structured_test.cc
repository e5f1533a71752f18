#include "stablehlo/structured.h"

#include <cmath>
#include <complex>
#include <numeric>

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"
#include "stablehlo/test_util.h"

namespace torch_tpu::stablehlo {
namespace {

using enum ElementType;
using testing::compile;
using testing::run;
using testing::upload;
using testing::values;

using Floats = std::vector<float>;

Value numbers(Builder& b, const std::vector<double>& list, const Dims& dims) {
  return reshape(constant_vector(b, kF32, std::span<const double>(list)), dims);
}

TEST(Reduce, DropsTheDims) {
  Builder b;
  const Value x = numbers(b, {1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(reduce_sum(x, {}).id(), x.id());
  const auto r = run(b, {reduce_sum(x, {0}), reduce_product(x, {1}), reduce_max(x, {0, 1}), reduce_min(x, {1})});
  EXPECT_EQ(testing::download<float>(r[0]), (Floats{5, 7, 9}));
  EXPECT_EQ(testing::download<float>(r[1]), (Floats{6, 120}));
  EXPECT_EQ(testing::download<float>(r[2]), (Floats{6}));
  EXPECT_EQ(testing::download<float>(r[3]), (Floats{1, 4}));
}

TEST(Reduce, OfNothingGivesTheStart) {
  Builder b;
  const Value x = constant(b, kF32, 0, {0, 2});
  const auto r = run(b, {reduce_sum(x, {0}), reduce_product(x, {0})});
  EXPECT_EQ(testing::download<float>(r[0]), (Floats{0, 0}));
  EXPECT_EQ(testing::download<float>(r[1]), (Floats{1, 1}));
}

TEST(Reduce, Bools) {
  Builder b;
  const int64_t list[] = {1, 0, 1, 1};
  const Value p = reshape(constant_vector(b, kPred, std::span<const int64_t>(list)), {2, 2});
  const auto r = run(b, {reduce_and(p, {1}), reduce_or(p, {0, 1})});
  EXPECT_EQ(testing::download<uint8_t>(r[0]), (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(testing::download<uint8_t>(r[1]), (std::vector<uint8_t>{1}));
}

TEST(Reduce, NanWins) {
  Builder b;
  const Value x = numbers(b, {1, std::nan(""), 2}, {3});
  const auto r = run(b, {reduce_max(x, {0}), reduce_min(x, {0})});
  EXPECT_TRUE(std::isnan(testing::download<float>(r[0])[0]));
  EXPECT_TRUE(std::isnan(testing::download<float>(r[1])[0]));
}

std::vector<int32_t> reduced(bool in_steps, Value (*f)(Value, const Dims&), const Dims& dims, const Dims& over) {
  Builder b;
  b.set_reduce_in_steps(in_steps);
  Value x = iota(b, kS32, {TensorType{kS32, dims}.numel()}, 0);
  x = reshape(remainder(multiply(x, x), constant_like(x, 101)), dims);
  if (f == reduce_and || f == reduce_or)
    return values<int32_t>(b, convert(f(equal(x, constant_like(x, 4)), over), kS32));
  return values<int32_t>(b, f(x, over));
}

// Plain and in steps must agree: odd sizes leave tails.
TEST(Reduce, LargeArraysInSteps) {
  const std::vector<std::pair<Dims, Dims>> cases = {{{4099}, {0}},
                                                    {{37, 131}, {0}},
                                                    {{37, 131}, {1}},
                                                    {{37, 131}, {0, 1}},
                                                    {{3, 5000}, {1}},
                                                    {{3001, 2}, {0}},
                                                    {{6, 17, 5, 23}, {0, 2, 3}},
                                                    {{6, 17, 5, 23}, {1, 3}},
                                                    {{3, 5, 1000}, {0, 1}},
                                                    {{64, 3, 64}, {0, 2}}};
  for (const auto& [dims, over] : cases)
    for (auto* f : {reduce_sum, reduce_max, reduce_min, reduce_product, reduce_and, reduce_or})
      EXPECT_EQ(reduced(true, f, dims, over), reduced(false, f, dims, over));
}

TEST(Reduce, StepsKeepSmallTerms) {
  // Added one by one to a growing sum, each 2^-24 would be lost.
  Builder b;
  b.set_reduce_in_steps(true);
  const int64_t n = 1 << 16;
  const Value tiny = constant(b, kF32, std::ldexp(1.0, -24), {n - 1}), one = constant(b, kF32, 1, {1});
  const Value parts[] = {one, tiny};
  const Value x = reshape(concatenate(parts, 0), {256, 256});
  EXPECT_NEAR(values<float>(b, reduce_sum(x, {0, 1}))[0], 1 + std::ldexp(n - 1.0, -24), 1e-4);
}

TEST(Reduce, SeveralArraysOfDifferentTypes) {
  Builder b;
  const Value xs[] = {numbers(b, {3, 7, 5}, {3}), iota(b, kS64, {3}, 0)};
  const Value inits[] = {lowest(b, kF32), constant(b, kS64, -1)};
  const auto r = reduce_many(xs, inits, {0}, [](std::span<const Value> a) {
    const Value better = greater(a[2], a[0]);
    return std::vector<Value>{select(better, a[2], a[0]), select(better, a[3], a[1])};
  });
  const auto results = run(b, {r[0], r[1]});
  EXPECT_EQ(testing::download<float>(results[0])[0], 7);
  EXPECT_EQ(testing::download<int64_t>(results[1])[0], 1);
}

TEST(ReduceWindow, WindowsStridesPaddingDilation) {
  Builder b;
  const Value x = numbers(b, {1, 2, 3, 4, 5}, {5}), zero = constant(b, kF32, 0);
  const Value plain = reduce_window(x, zero, {.dimensions = {2}}, add);
  const Value strided = reduce_window(x, zero, {.dimensions = {3}, .strides = {2}, .padding = {{1, 1}}}, add);
  const Value dilated = reduce_window(x, zero, {.dimensions = {2}, .window_dilations = {3}}, add);
  const Value spread = reduce_window(x, zero, {.dimensions = {2}, .base_dilations = {2}}, add);
  const auto r = run(b, {plain, strided, dilated, spread});
  EXPECT_EQ(testing::download<float>(r[0]), (Floats{3, 5, 7, 9}));
  EXPECT_EQ(testing::download<float>(r[1]), (Floats{3, 9, 9}));
  EXPECT_EQ(testing::download<float>(r[2]), (Floats{5, 7}));
  EXPECT_EQ(testing::download<float>(r[3]), (Floats{1, 2, 2, 3, 3, 4, 4, 5}));
}

TEST(ReduceWindow, SeveralArrays) {
  Builder b;
  const Value xs[] = {numbers(b, {3, 1, 2, 5}, {4}), iota(b, kS32, {4}, 0)};
  const Value inits[] = {lowest(b, kF32), constant(b, kS32, -1)};
  const auto r = reduce_window_many(xs, inits, {.dimensions = {2}, .strides = {2}}, [](std::span<const Value> a) {
    const Value better = greater(a[2], a[0]);
    return std::vector<Value>{select(better, a[2], a[0]), select(better, a[3], a[1])};
  });
  const auto results = run(b, {r[0], r[1]});
  EXPECT_EQ(testing::download<float>(results[0]), (Floats{3, 5}));
  EXPECT_EQ(testing::download<int32_t>(results[1]), (std::vector<int32_t>{0, 3}));
}

TEST(SelectAndScatter, SendsGradientsToTheMaximum) {
  Builder b;
  const Value x = numbers(b, {1, 4, 2, 3}, {4}), source = numbers(b, {10, 20}, {2});
  const Value r = select_and_scatter(
      x, source, constant(b, kF32, 0), {.dimensions = {2}, .strides = {2}},
      [](Value a, Value c) { return greater_equal(a, c); }, add);
  EXPECT_EQ(values<float>(b, r), (Floats{0, 10, 0, 20}));
}

TEST(Sort, CarriesOtherArraysAlong) {
  Builder b;
  const Value xs[] = {numbers(b, {3, 1, 2, 1}, {4}), iota(b, kS32, {4}, 0)};
  const auto r = sort(xs, 0, true, [](std::span<const Value> a) { return less(a[0], a[1]); });
  const auto results = run(b, {r[0], r[1]});
  EXPECT_EQ(testing::download<float>(results[0]), (Floats{1, 1, 2, 3}));
  EXPECT_EQ(testing::download<int32_t>(results[1]), (std::vector<int32_t>{1, 3, 2, 0}));
}

TEST(TopK, ValuesAndIndices) {
  Builder b;
  const auto r = top_k(numbers(b, {3, 1, 2, 9, 8, 7}, {2, 3}), 2);
  EXPECT_EQ(r[1].type(), (TensorType{kS32, {2, 2}}));
  const auto results = run(b, {r[0], r[1]});
  EXPECT_EQ(testing::download<float>(results[0]), (Floats{3, 2, 9, 8}));
  EXPECT_EQ(testing::download<int32_t>(results[1]), (std::vector<int32_t>{0, 2, 0, 1}));
}

TEST(While, RunsUntilTheConditionFails) {
  Builder b;
  const Value init[] = {constant(b, kS32, 0), constant(b, kF32, 1)};
  const auto r = while_loop(
      init, [](std::span<const Value> s) { return less(s[0], constant_like(s[0], 10)); },
      [](std::span<const Value> s) {
        return std::vector<Value>{s[0] + constant_like(s[0], 1), s[1] * constant_like(s[1], 2)};
      });
  EXPECT_EQ(values<float>(b, r[1]), (Floats{1024}));
}

TEST(If, TakesOneBranchAndInfersItsTypes) {
  for (uint8_t which : {0, 1}) {
    Builder b;
    const Value p = b.parameter({kPred, {}});
    const auto r = if_then_else(
        p, [&] { return std::vector<Value>{constant(b, kF32, 1, {2}), constant(b, kS32, 3)}; },
        [&] { return std::vector<Value>{constant(b, kF32, 2, {2}), constant(b, kS32, 4)}; });
    ASSERT_EQ(r.size(), 2u);
    EXPECT_EQ(r[0].type(), (TensorType{kF32, {2}}));
    const pjrt::Buffer predicate = upload<uint8_t>(kPred, {}, {which});
    const auto results = run(b, {r[0], r[1]}, {&predicate});
    EXPECT_EQ(testing::download<float>(results[0]), Floats(2, which ? 1.0f : 2.0f));
    EXPECT_EQ(testing::download<int32_t>(results[1])[0], which ? 3 : 4);
  }
}

TEST(DotGeneral, ResultDimsAreBatchThenFree) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 3, 4}}), y = b.parameter({kF32, {5, 4, 2}});
  const Value r = dot_general(x, y, {{0}, {2}, {2}, {1}}, DotPrecision::kHighest);
  EXPECT_EQ(r.dims(), (Dims{2, 3, 5}));
  EXPECT_THROW(dot_general(x, y, {{0}, {2}, {1}, {1}}, DotPrecision::kHighest), TypeError);
  const Value half = b.parameter({kBF16, {2, 2}});
  const Value wide = dot_general(half, half, {{}, {}, {1}, {0}}, DotPrecision::kDefault, kF32);
  EXPECT_EQ(wide.type(), (TensorType{kF32, {2, 2}}));
  EXPECT_NO_THROW(compile(b, std::vector<Value>{r, wide}));
}

TEST(DotGeneral, Multiplies) {
  for (auto precision : {DotPrecision::kDefault, DotPrecision::kHigh, DotPrecision::kHighest}) {
    Builder b;
    const Value x = numbers(b, {1, 2, 3, 4}, {2, 2}), y = numbers(b, {5, 6, 7, 8}, {2, 2});
    EXPECT_EQ(values<float>(b, dot_general(x, y, {{}, {}, {1}, {0}}, precision)), (Floats{19, 22, 43, 50}));
  }
}

TEST(Convolution, StridesPaddingDilationGroups) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 4, 8, 9}}), k = b.parameter({kF32, {6, 2, 3, 3}});
  ConvolutionDims c;
  c.input_spatial = c.kernel_spatial = c.output_spatial = {2, 3};
  c.window_strides = {2, 1};
  c.rhs_dilation = {1, 2};
  c.padding = {{1, 1}, {2, 0}};
  c.feature_group_count = 2;
  const Value plain = convolution(x, k, c, DotPrecision::kHighest);
  EXPECT_EQ(plain.dims(), (Dims{2, 6, 4, 7}));
  c.window_strides = {};
  c.lhs_dilation = {2, 2};
  c.window_reversal = {true, true};
  const Value transposed = convolution(x, k, c, DotPrecision::kDefault);
  EXPECT_EQ(transposed.dims(), (Dims{2, 6, 15, 15}));
  EXPECT_NO_THROW(compile(b, std::vector<Value>{plain, transposed}));
}

TEST(Convolution, OtherLayoutsAndNumbers) {
  Builder b;
  // Channels last, kernel HIO: a difference filter.
  const Value x = numbers(b, {1, 4, 9, 16}, {1, 4, 1}), k = numbers(b, {-1, 1}, {2, 1, 1});
  ConvolutionDims c;
  c.input_feature = c.output_feature = 2;
  c.kernel_output_feature = 2;
  c.kernel_input_feature = 1;
  c.input_spatial = c.output_spatial = {1};
  c.kernel_spatial = {0};
  EXPECT_EQ(values<float>(b, convolution(x, k, c, DotPrecision::kHighest)), (Floats{3, 5, 7}));
}

TEST(Fft, TypesAndLengths) {
  Builder b;
  const Value x = numbers(b, {1, 2, 3, 4, 5}, {5});
  const Value spectrum = fft(x, FftType::kRfft, {5});
  EXPECT_EQ(spectrum.type(), (TensorType{kC64, {3}}));
  const Value back = fft(spectrum, FftType::kIrfft, {5});
  EXPECT_EQ(back.type(), (TensorType{kF32, {5}}));
  const Value full = fft(convert(x, kC64), FftType::kFft, {5});
  EXPECT_EQ(full.type(), (TensorType{kC64, {5}}));
  const auto r = run(b, {spectrum, back, full, fft(full, FftType::kIfft, {5})});
  EXPECT_NEAR(testing::download<std::complex<float>>(r[0])[0].real(), 15, 1e-5);
  EXPECT_NEAR(testing::download<float>(r[1])[4], 5, 1e-5);
  EXPECT_NEAR(testing::download<std::complex<float>>(r[3])[1].real(), 2, 1e-5);
}

TEST(LinearAlgebra, CholeskyAndTriangularSolve) {
  Builder b;
  const Value a = numbers(b, {4, 2, 2, 5}, {2, 2});
  const Value l = cholesky(a, true);
  const Value rhs = numbers(b, {8, 14}, {2, 1});
  const Value y = triangular_solve(l, rhs, true, true, false, Transpose::kNone);
  const Value x = triangular_solve(l, y, true, true, false, Transpose::kTranspose);
  const Value adjoint = triangular_solve(l, y, true, true, true, Transpose::kAdjoint);
  const auto r = run(b, {l, x, adjoint});
  EXPECT_NEAR(testing::download<float>(r[0])[0], 2, 1e-6);
  EXPECT_NEAR(testing::download<float>(r[0])[3], 2, 1e-6);
  EXPECT_NEAR(testing::download<float>(r[1])[0], 0.75, 1e-6);
  EXPECT_NEAR(testing::download<float>(r[1])[1], 2.5, 1e-6);
}

TEST(RngBitGenerator, AdvancesItsState) {
  Builder b;
  const Value state = b.parameter({kU64, {2}});
  const auto [next, bits] = rng_bit_generator(state, kU32, {8});
  const auto [after, more] = rng_bit_generator(next, kU64, {4});
  EXPECT_EQ(more.type(), (TensorType{kU64, {4}}));
  const pjrt::Buffer argument = upload<uint64_t>(kU64, {2}, {1234, 0});
  const auto r = run(b, {next, bits, after, more}, {&argument});
  EXPECT_NE(testing::download<uint64_t>(r[0]), testing::download<uint64_t>(argument));
  EXPECT_NE(testing::download<uint64_t>(r[0]), testing::download<uint64_t>(r[2]));
  const auto words = testing::download<uint32_t>(r[1]);
  EXPECT_NE(words[0], words[1]);
}

// The plugin reads the call, attributes included, and then misses the handler: that is its only complaint.
TEST(CustomCall, Parses) {
  Builder b;
  const Value x = b.parameter({kF32, {2}});
  const TensorType types[] = {{kF32, {2}}, {kS32, {}}};
  const auto r =
      custom_call("torch_tpu_absent", {&x, 1}, types, R"({n = 3 : i64, name = "x", scale = 1.5 : f64})", true);
  ASSERT_EQ(r.size(), 2u);
  EXPECT_EQ(r[1].type(), types[1]);
  try {
    compile(b, r);
    FAIL() << "compiled a call of a target that nobody registered";
  } catch (const pjrt::Error& e) {
    EXPECT_PRED2(pjrt::testing::contains, e.what(), "torch_tpu_absent");
  }
}

TEST(OptimizationBarrier, PassesValuesThrough) {
  Builder b;
  const Value xs[] = {numbers(b, {1, 2}, {2}), constant(b, kS32, 3)};
  const auto r = optimization_barrier(xs);
  const auto results = run(b, {r[0], r[1]});
  EXPECT_EQ(testing::download<float>(results[0]), (Floats{1, 2}));
  EXPECT_EQ(testing::download<int32_t>(results[1])[0], 3);
}

}  // namespace
}  // namespace torch_tpu::stablehlo
