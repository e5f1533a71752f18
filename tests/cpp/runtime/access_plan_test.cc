// Access plans against a plain strided loop over bytes: which form a geometry gets, and what reading and writing
// through it do for each offset.
#include "runtime/access_plan.h"

#include <cstring>
#include <random>

#include "pjrt/test_util.h"
#include "stablehlo/builder.h"

namespace torch_tpu::runtime {
namespace {

using enum ElementType;
using Form = AccessPlan::Form;
using Bytes = std::vector<uint8_t>;
using stablehlo::TensorType;

struct Case {
  std::string name;
  TensorType base;
  ElementType type;
  Dims sizes, strides;
  Form form;
  std::vector<int64_t> offsets = {0};
  std::vector<int64_t> misfits = {};  // offsets that wrap around a dim of the array: the irregular plan's

  ViewGeometry geometry() const { return {base, type, sizes, strides}; }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

size_t byte_count(const TensorType& t) { return static_cast<size_t>(t.numel()) * byte_size(t.element); }

// Bytes that are no NaN in any floating type, and 0 or 1 where bools are concerned.
Bytes pattern(const Case& c, uint8_t seed, bool bools) {
  Bytes bytes(byte_count(c.base));
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>((i * 37 + seed) & 0x3F);
    if (bools) bytes[i] = bytes[i] >> 2 & 1;
  }
  return bytes;
}

// Calls body(byte offset in the array) for each element of the view, in row-major order.
template <typename Body>
void for_each_element(const Case& c, int64_t offset, Body&& body) {
  const auto item = static_cast<int64_t>(byte_size(c.type));
  const int64_t n = TensorType{c.type, c.sizes}.numel();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = offset;
    for (size_t d = c.sizes.size(); d-- > 0;) {
      at += rest % c.sizes[d] * c.strides[d];
      rest /= c.sizes[d];
    }
    body(static_cast<size_t>(at * item));
  }
}

Bytes read_strided(const Case& c, const Bytes& array, int64_t offset) {
  Bytes view;
  for_each_element(c, offset, [&](size_t at) {
    for (size_t k = 0; k < byte_size(c.type); ++k)
      view.push_back(is_bool(c.type) ? array.at(at + k) != 0 : array.at(at + k));
  });
  return view;
}

Bytes download(const pjrt::Buffer& buffer, const TensorType& type) {
  Bytes bytes(byte_count(type));
  buffer.copy_to_host(bytes.data(), bytes.size()).await();
  return bytes;
}

// One program that reads the view and writes another value through it, run for each offset.
void check(const Case& c, bool irregular, const std::vector<int64_t>& offsets) {
  SCOPED_TRACE(c.name + (irregular ? ", irregular" : ""));
  const AccessPlan plan = AccessPlan::make(c.geometry(), irregular);
  const TensorType view_type{c.type, c.sizes};
  stablehlo::Builder b;
  const Value base = b.parameter(c.base), view = b.parameter(view_type);
  std::vector<Value> starts;
  for (size_t i = 0; i < plan.num_starts(); ++i) starts.push_back(b.parameter({kS32, {}}));
  const Value results[] = {plan.emit_read(base, starts),
                           plan.emit_write(plan.covers() ? Value() : base, view, starts, b)};
  ASSERT_EQ(results[0].type(), view_type);
  ASSERT_EQ(results[1].type(), c.base);
  const std::string text = b.finish(results);
  SCOPED_TRACE(text);
  const auto& client = pjrt::testing::cpu_client();
  const auto& device = pjrt::testing::device(0);
  const auto program = client->compile(text, pjrt::testing::portable_options());

  const Bytes old = pattern(c, 11, is_bool(c.base.element));
  // Taken from an array too, so that elements that share memory (expanded dims, overlapping windows) agree.
  const Bytes fresh = pattern(c, 5, is_bool(c.base.element) || is_bool(c.type));
  for (const int64_t offset : offsets) {
    SCOPED_TRACE("offset " + std::to_string(offset));
    std::vector<int64_t> at(plan.num_starts());
    ASSERT_TRUE(plan.starts(offset, at.data()));
    const Bytes update = read_strided(c, fresh, offset);
    Bytes expected = old;
    for_each_element(c, offset, [&](size_t p) { std::memcpy(&expected.at(p), &fresh.at(p), byte_size(c.type)); });

    std::vector<pjrt::Buffer> arguments;
    arguments.push_back(client->buffer_from_host(old.data(), c.base.element, c.base.dims, device));
    arguments.push_back(client->buffer_from_host(update.data(), c.type, c.sizes, device));
    for (const int64_t start : at) {
      const auto narrow = static_cast<int32_t>(start);
      arguments.push_back(client->buffer_from_host(&narrow, kS32, {}, device));
    }
    std::vector<PJRT_Buffer*> args, outputs(2);
    for (const pjrt::Buffer& a : arguments) args.push_back(a.get());
    program->execute(args, outputs, {.device = device.get()});
    const pjrt::Buffer read(client->api(), outputs[0]), written(client->api(), outputs[1]);
    EXPECT_EQ(download(read, view_type), read_strided(c, old, offset)) << "read";
    EXPECT_EQ(download(written, c.base), expected) << "write";
  }
}

class AccessPlanTest : public ::testing::TestWithParam<Case> {};

TEST_P(AccessPlanTest, ReadsAndWritesLikeAStridedLoop) {
  const Case& c = GetParam();
  const AccessPlan plan = AccessPlan::make(c.geometry(), false);
  EXPECT_EQ(plan.form(), c.form);
  check(c, false, c.offsets);
  std::vector<int64_t> all = c.offsets, starts(plan.num_starts());
  for (const int64_t offset : c.misfits) {
    EXPECT_FALSE(plan.starts(offset, starts.data())) << offset;
    all.push_back(offset);
  }
  check(c, true, all);
}

const Case kCases[] = {
    // The whole array, in some order.
    {"whole", {kF32, {2, 3}}, kF32, {2, 3}, {3, 1}, Form::kWhole},
    {"flat", {kF32, {2, 3}}, kF32, {6}, {1}, Form::kWhole},
    {"transposed", {kF32, {2, 3}}, kF32, {3, 2}, {1, 3}, Form::kWhole},
    {"permuted", {kF32, {2, 3, 4}}, kF32, {4, 2, 3}, {1, 12, 4}, Form::kWhole},
    {"channels_last", {kF32, {2, 3, 4, 2}}, kF32, {2, 2, 3, 4}, {24, 1, 8, 2}, Form::kWhole},
    {"unit_dims_of_any_stride", {kF32, {2, 3}}, kF32, {1, 2, 1, 3}, {77, 3, 0, 1}, Form::kWhole},
    {"scalar_array", {kF32, {}}, kF32, {}, {}, Form::kWhole},
    {"scalar_array_with_dims", {kF32, {}}, kF32, {1, 1}, {1, 1}, Form::kWhole},
    {"expanded", {kF32, {3}}, kF32, {4, 3, 2}, {0, 1, 0}, Form::kWhole},
    {"empty", {kF32, {2, 3}}, kF32, {0, 3}, {3, 1}, Form::kEmpty},
    // Windows.
    {"row", {kF32, {4, 3}}, kF32, {3}, {1}, Form::kChain, {0, 3, 6, 9}, {1, 2, 8}},
    {"column", {kF32, {4, 3}}, kF32, {4}, {3}, Form::kChain, {0, 1, 2}},
    {"element", {kF32, {2, 3}}, kF32, {}, {}, Form::kChain, {0, 1, 2, 3, 5}},
    {"element_with_dims", {kF32, {2, 3}}, kF32, {1, 1}, {5, 5}, Form::kChain, {0, 4}},
    {"block", {kF32, {4, 5}}, kF32, {2, 3}, {5, 1}, Form::kChain, {0, 1, 2, 5, 12}, {3, 9}},
    {"block_transposed", {kF32, {4, 5}}, kF32, {3, 2}, {1, 5}, Form::kChain, {0, 2, 11}},
    {"rows", {kF32, {5, 2, 3}}, kF32, {2, 2, 3}, {6, 3, 1}, Form::kChain, {0, 6, 18}, {3, 7}},
    {"middle_select", {kF32, {3, 4, 2}}, kF32, {3, 2}, {8, 1}, Form::kChain, {0, 2, 6}, {1, 5}},
    {"expanded_element", {kF32, {5}}, kF32, {3, 2}, {0, 0}, Form::kChain, {0, 3, 4}},
    {"expanded_row", {kF32, {3, 4}}, kF32, {2, 4}, {0, 1}, Form::kChain, {0, 4, 8}, {2}},
    {"channels_last_crop", {kF32, {2, 3, 4, 2}}, kF32, {2, 1, 2, 3}, {24, 1, 8, 2}, Form::kChain, {0, 1, 2, 11}, {4}},
    {"split_dim", {kF32, {12}}, kF32, {2, 3}, {4, 1}, Form::kChain, {0, 1, 5}, {2}},
    {"merged_dims", {kF32, {3, 2, 4}}, kF32, {2, 8}, {8, 1}, Form::kChain, {0, 8}, {4}},
    {"step_that_divides", {kF32, {10}}, kF32, {4}, {2}, Form::kChain, {0, 1, 2, 3}},
    {"diagonal_that_divides", {kF32, {6, 5}}, kF32, {4}, {6}, Form::kChain, {0, 1, 5, 6, 11}},
    // Steps.
    {"step", {kF32, {9}}, kF32, {4}, {2}, Form::kStepped, {0, 1, 2}},
    {"step_over_all", {kF32, {9}}, kF32, {5}, {2}, Form::kStepped},
    {"step_inside", {kF32, {4, 10}}, kF32, {4, 3}, {10, 3}, Form::kStepped, {0, 1, 3}},
    {"step_outside", {kF32, {7, 3}}, kF32, {3, 3}, {6, 1}, Form::kStepped, {0, 3, 6}},
    {"step_transposed", {kF32, {5, 7}}, kF32, {3, 2}, {2, 14}, Form::kStepped, {0, 1, 8}, {3}},
    {"step_expanded", {kF32, {9}}, kF32, {2, 4, 3}, {0, 2, 0}, Form::kStepped, {0, 2}},
    // Diagonals and windows that wrap.
    {"diagonal", {kF32, {4, 4}}, kF32, {4}, {5}, Form::kFlatWindow},
    {"off_diagonal", {kF32, {4, 4}}, kF32, {3}, {5}, Form::kFlatWindow, {0, 1, 4, 5}},
    {"nested_steps", {kF32, {20}}, kF32, {3, 2}, {3, 9}, Form::kFlatWindow, {0, 1, 4}},
    {"wide_gap", {kF32, {3, 7}}, kF32, {2, 2}, {10, 1}, Form::kFlatWindow, {0, 3, 8}},
    // Overlapping windows.
    {"sliding_window", {kF32, {8}}, kF32, {5, 3}, {1, 1}, Form::kGather, {0, 1}},
    {"sliding_window_with_step", {kF32, {8}}, kF32, {3, 3}, {2, 1}, Form::kGather, {0, 1}},
    {"batched_diagonal", {kF32, {2, 3, 3}}, kF32, {2, 3}, {9, 4}, Form::kGather},
    {"strides_that_do_not_divide", {kF32, {20}}, kF32, {2, 2}, {5, 3}, Form::kGather, {0, 7}},
    // Other types on the same memory.
    {"f32_as_s32", {kF32, {2, 3}}, kS32, {2, 3}, {3, 1}, Form::kWhole},
    {"s32_row_as_f32", {kS32, {2, 3}}, kF32, {3}, {1}, Form::kChain, {0, 3}, {1}},
    {"f32_as_s16", {kF32, {2, 3}}, kS16, {2, 6}, {6, 1}, Form::kWhole},
    {"part_of_f32_as_s16", {kF32, {2, 3}}, kS16, {2, 2}, {6, 1}, Form::kChain, {0, 1, 4}},
    {"s16_as_f32", {kS16, {8}}, kF32, {2}, {1}, Form::kChain, {0, 1, 2}},
    {"s16_as_s32_of_2d", {kS16, {2, 4}}, kS32, {2, 2}, {2, 1}, Form::kWhole},
    {"u8_as_f64", {kU8, {32}}, kF64, {2}, {2}, Form::kChain, {0, 1}},
    {"f64_as_u8", {kF64, {2}}, kU8, {5}, {3}, Form::kStepped, {0, 2, 3}},
    {"bf16_as_f16", {kBF16, {6}}, kF16, {4}, {1}, Form::kChain, {0, 2}},
    {"c64_as_real", {kC64, {2, 3}}, kF32, {2, 3, 2}, {6, 2, 1}, Form::kWhole},
    {"real_parts", {kC64, {3}}, kF32, {3}, {2}, Form::kChain, {0, 1}},
    {"real_as_c64", {kF32, {3, 2}}, kC64, {3}, {1}, Form::kWhole},
    {"part_of_real_as_c64", {kF32, {3, 2}}, kC64, {2}, {1}, Form::kChain, {0, 1}},
    {"c128_as_f64", {kC128, {3}}, kF64, {2, 2}, {2, 1}, Form::kChain, {0, 2}},
    {"c64_as_s32", {kC64, {3}}, kS32, {4}, {1}, Form::kChain, {0, 1, 2}},
    {"c64_as_f64", {kC64, {4}}, kF64, {2}, {2}, Form::kChain, {0, 1}},
    {"c64_as_c128", {kC64, {4}}, kC128, {1}, {1}, Form::kChain, {0, 1}},
    {"bool_rows", {kPred, {3, 4}}, kPred, {4}, {1}, Form::kChain, {0, 4, 8}, {3}},
    {"bool_as_u8", {kPred, {8}}, kU8, {4}, {1}, Form::kChain, {0, 1, 4}},
    {"bool_as_s16", {kPred, {8}}, kS16, {2}, {1}, Form::kChain, {0, 2}},
    {"u8_as_bool", {kU8, {8}}, kPred, {8}, {1}, Form::kWhole},
    {"part_of_u8_as_bool", {kU8, {8}}, kPred, {3}, {2}, Form::kChain, {0, 1, 3}},
    {"part_of_f32_as_bool", {kF32, {2}}, kPred, {3}, {1}, Form::kChain, {0, 4, 5}},
    // Arrays that do not end at an element of the view's type.
    {"u8_tail_as_s32", {kU8, {10}}, kS32, {2}, {1}, Form::kWhole},
    {"part_of_u8_tail_as_s32", {kU8, {11}}, kS32, {1}, {1}, Form::kChain, {0, 1}},
    {"f32_tail_as_c64", {kF32, {5}}, kC64, {2}, {1}, Form::kWhole},
    {"c64_tail_as_c128", {kC64, {3}}, kC128, {1}, {1}, Form::kWhole},
};

INSTANTIATE_TEST_SUITE_P(Geometries, AccessPlanTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(AccessPlan, CoversOnlyWhatReplacesEveryElement) {
  auto covers = [](const TensorType& base, ElementType type, const Dims& sizes, const Dims& strides) {
    return AccessPlan::make({base, type, sizes, strides}, false).covers();
  };
  EXPECT_TRUE(covers({kF32, {2, 3}}, kF32, {3, 2}, {1, 3}));
  EXPECT_FALSE(covers({kF32, {2, 3}}, kF32, {3}, {1}));
  EXPECT_FALSE(covers({kF32, {2, 3}}, kS32, {2, 3}, {3, 1}));
  EXPECT_TRUE(covers({kU8, {4}}, kPred, {4}, {1}));
  EXPECT_FALSE(covers({kF32, {3}}, kF32, {2, 3}, {0, 1}));
  EXPECT_FALSE(covers({kF32, {2, 3}}, kF32, {0}, {1}));
}

// Any strides that stay inside the array, for all the offsets that they leave.
TEST(AccessPlan, RandomGeometries) {
  std::mt19937 random(20);
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  constexpr int kCasesWanted = 60;
  for (int found = 0; found < kCasesWanted;) {
    Case c{"", {kF32, {}}, kF32, {}, {}, Form::kWhole, {}, {}};
    for (int64_t d = pick(1, 3); d > 0; --d) c.base.dims.push_back(pick(1, 5));
    int64_t extent = 0;
    for (int64_t d = pick(1, 3); d > 0; --d) {
      c.sizes.push_back(pick(1, 4));
      c.strides.push_back(pick(0, 3) == 0 ? 0 : pick(1, 12));
      extent += (c.sizes.back() - 1) * c.strides.back();
    }
    const int64_t room = c.base.numel() - extent;
    if (room <= 0) continue;
    ++found;
    c.name = to_string(c.base) + " seen as " + stablehlo::bracket_list(c.sizes) + " by " +
             stablehlo::bracket_list(c.strides);
    const AccessPlan plan = AccessPlan::make(c.geometry(), false);
    std::vector<int64_t> starts(plan.num_starts()), fits, others;
    for (int64_t offset = 0; offset < room; ++offset)
      (plan.starts(offset, starts.data()) ? fits : others).push_back(offset);
    EXPECT_FALSE(fits.empty() && plan.form() == Form::kWhole) << c.name;
    if (!fits.empty()) check(c, false, fits);
    if (!others.empty()) check(c, true, others);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace torch_tpu::runtime
