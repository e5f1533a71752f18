#include "runtime/inline_vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

namespace torch_tpu::runtime {
namespace {

template <typename V>
std::vector<int> contents(const V& v) {
  return {v.begin(), v.end()};
}

TEST(InlineVector, GrowsPastItsInlineStorage) {
  InlineVector<int, 4> v;
  EXPECT_TRUE(v.empty());
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    v.push_back(i);
    expected.push_back(i);
    ASSERT_EQ(contents(v), expected);
  }
  EXPECT_EQ(v.size(), 100u);
  EXPECT_EQ(v.back(), 99);
  EXPECT_EQ(v[50], 50);
}

TEST(InlineVector, StaysInlineUpToItsCapacity) {
  InlineVector<int, 4> v;
  const int* inside = v.data();
  for (int i = 0; i < 4; ++i) v.push_back(i);
  EXPECT_EQ(v.data(), inside);
  v.push_back(4);
  EXPECT_NE(v.data(), inside);
}

TEST(InlineVector, ClearKeepsTheMemory) {
  InlineVector<int, 2> v;
  for (int i = 0; i < 10; ++i) v.push_back(i);
  const int* memory = v.data();
  v.clear();
  EXPECT_TRUE(v.empty());
  for (int i = 0; i < 10; ++i) v.push_back(-i);
  EXPECT_EQ(v.data(), memory);
  EXPECT_EQ(v.back(), -9);
}

TEST(InlineVector, Appends) {
  InlineVector<int, 4> v;
  std::vector<int> many(50);
  std::iota(many.begin(), many.end(), 0);
  v.append(many.data(), 3);
  v.append(nullptr, 0);
  v.append(many.data() + 3, many.size() - 3);
  EXPECT_EQ(contents(v), many);
}

TEST(InlineVector, ResizeZeroesWhatIsNew) {
  InlineVector<int, 4> v;
  v.push_back(7);
  v.resize(3);
  EXPECT_EQ(contents(v), (std::vector<int>{7, 0, 0}));
  v.resize(20);
  EXPECT_EQ(v[19], 0);
  EXPECT_EQ(v[0], 7);
  v.resize(1);
  v.resize(3);
  EXPECT_EQ(contents(v), (std::vector<int>{7, 0, 0}));
}

TEST(InlineVector, CopiesAreIndependent) {
  for (int n : {3, 30}) {
    InlineVector<int, 4> v;
    for (int i = 0; i < n; ++i) v.push_back(i);
    InlineVector<int, 4> copy = v, assigned;
    assigned.push_back(99);
    assigned = v;
    v[0] = -1;
    EXPECT_EQ(copy[0], 0);
    EXPECT_EQ(assigned[0], 0);
    EXPECT_EQ(copy.size(), static_cast<size_t>(n));
    EXPECT_EQ(contents(assigned), contents(copy));
    InlineVector<int, 4>& self = assigned;
    assigned = self;
    EXPECT_EQ(contents(assigned), contents(copy));
  }
}

TEST(InlineVector, HoldsStructs) {
  struct Pair {
    int64_t a = 1;
    char b = 'x';
  };
  InlineVector<Pair, 2> v;
  v.resize(5);
  EXPECT_EQ(v[4].a, 1);
  EXPECT_EQ(v[4].b, 'x');
  const std::span<const Pair> span = v;
  EXPECT_EQ(span.size(), 5u);
}

}  // namespace
}  // namespace torch_tpu::runtime
