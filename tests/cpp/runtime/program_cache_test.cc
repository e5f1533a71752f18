#include "runtime/program_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/metrics.h"
#include "runtime/trace_program.h"

namespace torch_tpu::runtime {
namespace {

KeyWords key_of(std::initializer_list<uint64_t> words) {
  KeyWords key;
  for (uint64_t w : words) key.push_back(w);
  return key;
}

std::shared_ptr<const Program> program_of(const KeyWords& key) {
  auto program = std::make_shared<Program>();
  program->key.assign(key.begin(), key.end());
  return program;
}

TEST(ProgramCache, FindsWhatWasInserted) {
  ProgramCache cache;
  const KeyWords key = key_of({1, 2, 3});
  const uint64_t hash = hash_words(key.data(), key.size());
  EXPECT_EQ(cache.find(key, hash), nullptr);
  const auto program = program_of(key);
  EXPECT_EQ(cache.insert(hash, program), program);
  EXPECT_EQ(cache.find(key, hash), program);
  EXPECT_EQ(cache.size(), 1u);
  cache.clear();
  EXPECT_EQ(cache.find(key, hash), nullptr);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(ProgramCache, EqualHashesAreToldApart) {
  ProgramCache cache;
  const KeyWords a = key_of({1, 2}), b = key_of({2, 1}), longer = key_of({1, 2, 0});
  constexpr uint64_t kSame = 42;
  const auto first = cache.insert(kSame, program_of(a)), second = cache.insert(kSame, program_of(b));
  EXPECT_EQ(cache.find(a, kSame), first);
  EXPECT_EQ(cache.find(b, kSame), second);
  EXPECT_EQ(cache.find(longer, kSame), nullptr);
}

TEST(ProgramCache, TheFirstProgramOfAKeyStays) {
  ProgramCache cache;
  const KeyWords key = key_of({5});
  const auto first = cache.insert(7, program_of(key));
  EXPECT_EQ(cache.insert(7, program_of(key)), first);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(ProgramCache, GrowsAndKeepsAll) {
  ProgramCache cache;
  constexpr uint64_t kMany = 5000;
  for (uint64_t i = 0; i < kMany; ++i) {
    const KeyWords key = key_of({i, i * i});
    cache.insert(i % 61, program_of(key));  // crowded on purpose
  }
  EXPECT_EQ(cache.size(), kMany);
  for (uint64_t i = 0; i < kMany; ++i) {
    const auto found = cache.find(key_of({i, i * i}), i % 61);
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ(found->key[0], i);
  }
}

TEST(ProgramCache, ServesThreads) {
  ProgramCache cache;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < 2000; ++i) {
        const KeyWords key = key_of({i});
        const uint64_t hash = hash_words(key.data(), key.size());
        const auto mine = cache.insert(hash, program_of(key));
        if (cache.find(key, hash) != mine) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.size(), 2000u);
}

// Sixteen programs, of which the first four are looked up again, and one too many.
TEST(ProgramCache, DropsTheLeastRecentlyUsed) {
  ProgramCache cache(16);
  const int64_t dropped = metrics().programs_dropped;
  const auto find = [&](uint64_t i) { return cache.find(key_of({i}), i % 3); };
  std::shared_ptr<const Program> held;
  for (uint64_t i = 0; i < 16; ++i) {
    auto kept = cache.insert(i % 3, program_of(key_of({i})));
    if (i == 4) held = kept;
  }
  for (uint64_t i = 0; i < 4; ++i) EXPECT_NE(find(i), nullptr);
  cache.insert(16 % 3, program_of(key_of({16})));
  EXPECT_EQ(cache.size(), 15u);
  EXPECT_EQ(metrics().programs_dropped, dropped + 2);
  for (uint64_t i = 0; i < 17; ++i) EXPECT_EQ(find(i) == nullptr, i == 4 || i == 5) << i;
  EXPECT_EQ(held->key[0], 4u);  // who runs a program keeps it
}

TEST(ProgramCache, StaysUnderItsCap) {
  for (const size_t cap : {1, 2, 7, 100}) {
    ProgramCache cache(cap);
    for (uint64_t i = 0; i < 3000; ++i) {
      const auto program = program_of(key_of({i}));
      EXPECT_EQ(cache.insert(i, program), program);
      EXPECT_EQ(cache.find(key_of({i}), i), program);
      ASSERT_LE(cache.size(), cap);
    }
  }
}

TEST(ProgramCache, DropsWhileOthersLookUp) {
  ProgramCache cache(50);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 3000; ++i) {
        const KeyWords key = key_of({(i * static_cast<uint64_t>(t + 1)) % 200});
        const uint64_t hash = hash_words(key.data(), key.size());
        auto program = cache.find(key, hash);
        if (!program) program = cache.insert(hash, program_of(key));
        if (program->key[0] != key[0]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(cache.size(), 50u);
}

TEST(ProgramCache, CountsTheBytesOfExecutables) {
  ProgramCache cache;
  for (uint64_t i = 0; i < 3; ++i) cache.insert(i, program_of(key_of({i})))->executable_bytes = 100;
  EXPECT_EQ(cache.bytes(), 300);
  cache.clear();
  EXPECT_EQ(cache.bytes(), 0);
}

TEST(TraceCache, DropsTheLeastRecentlyUsedThatAreCompiled) {
  TraceCache cache(4);
  const auto add = [&](uint64_t i, bool expected_fresh) {
    bool fresh = false;
    auto program = cache.find_or_add({i}, &fresh);
    EXPECT_EQ(fresh, expected_fresh) << i;
    return program;
  };
  std::vector<std::shared_ptr<TraceProgram>> programs;
  for (uint64_t i = 0; i < 6; ++i) programs.push_back(add(i, true));
  EXPECT_EQ(cache.size(), 6u);  // all of them are being compiled
  for (const auto& program : programs) program->state = TraceProgram::State::kReady;
  EXPECT_EQ(add(0, false), programs[0]);
  add(6, true);
  EXPECT_EQ(cache.size(), 4u);
  for (const uint64_t i : {0, 4, 5}) EXPECT_EQ(add(i, false), programs[i]);
  EXPECT_NE(add(1, true), programs[1]);
}

TEST(TensorKey, HoldsGeometryButNotTheOffset) {
  const int64_t sizes[] = {2, 3}, strides[] = {3, 1}, column_strides[] = {1, 2};
  Storage storage;
  storage.element = ElementType::kF32;
  storage.dims = {4, 3};
  auto key = [&](auto&& change) {
    Call call;
    TensorRef t{.storage = &storage,
                .type = ElementType::kF32,
                .contiguous = true,
                .rank = 2,
                .sizes = sizes,
                .strides = strides};
    bool irregular = false;
    change(t, irregular);
    call.tensors.push_back(t);
    append_tensor_key(call, 0, irregular);
    return std::vector<uint64_t>(call.key.begin(), call.key.end());
  };
  const auto plain = key([](TensorRef&, bool&) {});
  EXPECT_EQ(key([](TensorRef& t, bool&) { t.offset = 6; }), plain);
  EXPECT_NE(key([](TensorRef& t, bool&) { t.type = ElementType::kS32; }), plain);
  EXPECT_NE(key([&](TensorRef& t, bool&) { t.strides = column_strides; }), plain);
  EXPECT_NE(key([](TensorRef& t, bool&) { t.rank = 1; }), plain);
  EXPECT_NE(key([](TensorRef& t, bool&) { t.wrapped_number = true; }), plain);
  EXPECT_NE(key([](TensorRef&, bool& irregular) { irregular = true; }), plain);
  EXPECT_NE(key([](TensorRef& t, bool&) { t.storage = nullptr; }), plain);
  storage.dims = {12};
  EXPECT_NE(key([](TensorRef&, bool&) {}), plain);
}

TEST(TensorKey, SaysWhichTensorsShareAStorage) {
  const int64_t sizes[] = {4}, strides[] = {1};
  Storage first, second;
  for (Storage* s : {&first, &second}) {
    s->element = ElementType::kF32;
    s->dims = {4};
  }
  auto key = [&](Storage* a, Storage* b) {
    Call call;
    for (Storage* s : {a, b}) {
      call.tensors.push_back(
          {.storage = s, .type = ElementType::kF32, .contiguous = true, .rank = 1, .sizes = sizes, .strides = strides});
      append_tensor_key(call, call.tensors.size() - 1, false);
    }
    return std::vector<uint64_t>(call.key.begin(), call.key.end());
  };
  EXPECT_EQ(key(&first, &second), key(&second, &first));
  EXPECT_NE(key(&first, &second), key(&first, &first));
}

// Foreach ops have hundreds of tensors, and views of one flat buffer start anywhere in it.
TEST(Program, MarksAllMisfitsAtOnce) {
  constexpr int kTensors = 100;
  const AccessPlan rows = AccessPlan::make({{ElementType::kF32, {600}}, ElementType::kF32, {2, 3}, {3, 1}}, false);
  ASSERT_EQ(rows.num_starts(), 1u);
  Program program;
  Call call;
  for (int i = 0; i < kTensors; ++i) {
    program.starts.push_back({i, i, rows});
    call.tensors.push_back({.offset = i});
  }
  std::vector<int64_t> starts(kTensors);
  std::vector<bool> misfits;
  EXPECT_FALSE(program.compute_starts(call, starts.data(), &misfits));
  ASSERT_EQ(misfits.size(), static_cast<size_t>(kTensors));
  for (int i = 0; i < kTensors; ++i) EXPECT_EQ(misfits[static_cast<size_t>(i)], i % 3 != 0) << i;
  for (int i = 0; i < kTensors; ++i) call.tensors[static_cast<size_t>(i)].offset = 3 * i;
  misfits.clear();
  EXPECT_TRUE(program.compute_starts(call, starts.data(), &misfits));
  EXPECT_TRUE(misfits.empty());
  EXPECT_EQ(starts[7], 7);
}

TEST(ScalarValue, ConvertsAsStaticCastButSaturates) {
  ScalarValue s;
  s.real = -2.9;
  EXPECT_EQ(s.as_integer(), -2);
  s.real = 1e30;
  EXPECT_EQ(s.as_integer(), std::numeric_limits<int64_t>::max());
  s.real = -1e30;
  EXPECT_EQ(s.as_integer(), std::numeric_limits<int64_t>::min());
  s.real = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(s.as_integer(), 0);
  s.kind = ElementType::kS64;
  s.integer = -7;
  EXPECT_EQ(s.as_integer(), -7);
  EXPECT_EQ(s.as_double(), -7.0);
}

}  // namespace
}  // namespace torch_tpu::runtime
