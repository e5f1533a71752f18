#include "stablehlo/shape.h"

#include <numeric>

#include "stablehlo/constants.h"
#include "stablehlo/elementwise.h"
#include "stablehlo/test_util.h"

namespace torch_tpu::stablehlo {
namespace {

using enum ElementType;
using testing::run;
using testing::upload;
using testing::values;

using Floats = std::vector<float>;

pjrt::Buffer counting(const Dims& dims) {
  Floats numbers(static_cast<size_t>(TensorType{kF32, dims}.numel()));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return upload<float>(kF32, dims, numbers);
}

TEST(Shape, IdentitiesEmitNothing) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 3}});
  EXPECT_EQ(reshape(x, {2, 3}).id(), x.id());
  EXPECT_EQ(transpose(x, {0, 1}).id(), x.id());
  EXPECT_EQ(broadcast_to(x, {2, 3}).id(), x.id());
  EXPECT_EQ(slice(x, {0, 0}, {2, 3}).id(), x.id());
  EXPECT_EQ(pad(x, constant(b, kF32, 0), {0, 0}, {0, 0}).id(), x.id());
  EXPECT_EQ(concatenate({&x, 1}, 0).id(), x.id());
  EXPECT_EQ(reverse(x, {}).id(), x.id());
}

TEST(Shape, ResultDims) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 3, 4}});
  EXPECT_EQ(reshape(x, {6, 4}).dims(), (Dims{6, 4}));
  EXPECT_EQ(transpose(x, {2, 0, 1}).dims(), (Dims{4, 2, 3}));
  EXPECT_EQ(broadcast_to(x, {5, 2, 3, 4}).dims(), (Dims{5, 2, 3, 4}));
  EXPECT_EQ(slice(x, {0, 1, 0}, {2, 3, 4}, {1, 1, 3}).dims(), (Dims{2, 2, 2}));
  EXPECT_EQ(slice_dim(x, 2, 1, 4, 2).dims(), (Dims{2, 3, 2}));
  EXPECT_EQ(pad(x, constant(b, kF32, 0), {1, 0, -1}, {0, 2, 0}, {1, 0, 0}).dims(), (Dims{4, 5, 3}));
  const Value both[] = {x, x};
  EXPECT_EQ(concatenate(both, 1).dims(), (Dims{2, 6, 4}));
}

TEST(Shape, MistakesAreTypeErrors) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 3}}), y = b.parameter({kF64, {2, 3}});
  EXPECT_THROW(reshape(x, {5}), TypeError);
  EXPECT_THROW(transpose(x, {0}), TypeError);
  EXPECT_THROW(broadcast_to(x, {2, 4}), TypeError);
  EXPECT_THROW(broadcast_to(x, {3}), TypeError);
  EXPECT_THROW(slice(x, {0, 0}, {2, 4}), TypeError);
  EXPECT_THROW(slice(x, {1, 0}, {0, 3}), TypeError);
  EXPECT_THROW(dynamic_slice(x, {}, {1, 1}), TypeError);
  EXPECT_THROW(dynamic_update_slice(x, y, {}), TypeError);
  EXPECT_THROW(pad(x, constant(b, kF64, 0), {1, 0}, {0, 0}), TypeError);
  EXPECT_THROW(pad(x, constant(b, kF32, 0), {-3, 0}, {0, 0}), TypeError);
  const Value both[] = {x, y};
  EXPECT_THROW(concatenate(both, 0), TypeError);
}

TEST(Shape, MovesElements) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 3}});
  const pjrt::Buffer argument = counting({2, 3});
  const Value rows[] = {slice_dim(x, 0, 1, 2), slice_dim(x, 0, 0, 1)};
  const auto r =
      run(b,
          {transpose(x, {1, 0}), slice(x, {0, 0}, {2, 3}, {1, 2}), reverse(x, {1}), concatenate(rows, 0),
           pad(x, constant(b, kF32, 9), {0, -1}, {0, 1}, {0, 1}), broadcast_to(slice_dim(x, 1, 0, 1), {2, 2})},
          {&argument});
  EXPECT_EQ(testing::download<float>(r[0]), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(testing::download<float>(r[1]), (Floats{0, 2, 3, 5}));
  EXPECT_EQ(testing::download<float>(r[2]), (Floats{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(testing::download<float>(r[3]), (Floats{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(testing::download<float>(r[4]), (Floats{9, 1, 9, 2, 9, 9, 4, 9, 5, 9}));
  EXPECT_EQ(testing::download<float>(r[5]), (Floats{0, 0, 3, 3}));
}

TEST(Shape, DynamicSlicesAreRuntimeAndClamped) {
  Builder b;
  const Value x = b.parameter({kF32, {5}}), i = b.parameter({kS32, {}}), u = b.parameter({kF32, {2}});
  const Value starts[] = {i};
  const pjrt::Buffer data = counting({5}), update = upload<float>(kF32, {2}, {10, 20});
  auto program =
      testing::compile(b, std::vector<Value>{dynamic_slice(x, starts, {2}), dynamic_update_slice(x, u, starts)});
  const std::vector<std::pair<int, std::pair<Floats, Floats>>> cases = {
      {1, {{1, 2}, {0, 10, 20, 3, 4}}}, {4, {{3, 4}, {0, 1, 2, 10, 20}}}, {-7, {{0, 1}, {10, 20, 2, 3, 4}}}};
  for (const auto& [start, expected] : cases) {
    const pjrt::Buffer at = upload<int32_t>(kS32, {}, {start});
    PJRT_Buffer* args[] = {data.get(), at.get(), update.get()};
    PJRT_Buffer* out[2];
    program->execute(args, out, {.device = pjrt::testing::device(0).get()});
    const auto* api = pjrt::testing::cpu_client()->api();
    EXPECT_EQ(testing::download<float>(pjrt::Buffer(api, out[0])), expected.first) << start;
    EXPECT_EQ(testing::download<float>(pjrt::Buffer(api, out[1])), expected.second) << start;
  }
}

TEST(Gather, TakeReplacesADimByTheIndices) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 3, 2}});
  const int64_t list[] = {2, 0};
  const Value i = constant_vector(b, kS64, std::span<const int64_t>(list));
  EXPECT_EQ(take(x, reshape(i, {2, 1}), 1).dims(), (Dims{2, 2, 1, 2}));
  EXPECT_EQ(take(x, reshape(slice_dim(i, 0, 0, 1), {}), 0).dims(), (Dims{3, 2}));
  const pjrt::Buffer argument = counting({2, 3, 2});
  EXPECT_EQ(values<float>(b, take(x, i, 1), {&argument}), (Floats{4, 5, 0, 1, 10, 11, 6, 7}));
}

TEST(Gather, WithBatchingDims) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 4}});
  const int64_t list[] = {3, 1, 0, 2};
  const Value i = reshape(constant_vector(b, kS32, std::span<const int64_t>(list)), {2, 2, 1});
  GatherDims g;
  g.collapsed_slice_dims = {1};
  g.operand_batching_dims = {0};
  g.start_indices_batching_dims = {0};
  g.start_index_map = {1};
  g.index_vector_dim = 2;
  const pjrt::Buffer argument = counting({2, 4});
  const Value r = gather(x, i, g, {1, 1});
  EXPECT_EQ(r.dims(), (Dims{2, 2}));
  EXPECT_EQ(values<float>(b, r, {&argument}), (Floats{3, 1, 4, 6}));
}

TEST(Scatter, CombinesAndSkipsWhatIsOutOfRange) {
  Builder b;
  const Value x = b.parameter({kF32, {4}});
  const int64_t list[] = {1, 1, 7, -1};
  const Value i = constant_vector(b, kS32, std::span<const int64_t>(list));
  const Value updates = constant(b, kF32, 10, {4});
  ScatterDims s;
  s.inserted_window_dims = {0};
  s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  const pjrt::Buffer argument = counting({4});
  EXPECT_EQ(values<float>(b, scatter(x, i, updates, s, add), {&argument}), (Floats{0, 21, 2, 3}));
}

TEST(Scatter, SeveralArraysAtOnce) {
  Builder b;
  const Value x = b.parameter({kF32, {2, 2}});
  const Value n = constant(b, kS32, 0, {2, 2});
  const int64_t list[] = {1};
  const Value i = constant_vector(b, kS32, std::span<const int64_t>(list));
  ScatterDims s;
  s.update_window_dims = {1};
  s.inserted_window_dims = {0};
  s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  const Value operands[] = {x, n}, updates[] = {constant(b, kF32, 5, {1, 2}), constant(b, kS32, 7, {1, 2})};
  const auto r = scatter_many(
      operands, i, updates, s, [](std::span<const Value> a) { return std::vector<Value>{a[2], a[3]}; }, true);
  const pjrt::Buffer argument = counting({2, 2});
  const auto results = run(b, {r[0], r[1]}, {&argument});
  EXPECT_EQ(testing::download<float>(results[0]), (Floats{0, 1, 5, 5}));
  EXPECT_EQ(testing::download<int32_t>(results[1]), (std::vector<int32_t>{0, 0, 7, 7}));
}

}  // namespace
}  // namespace torch_tpu::stablehlo
