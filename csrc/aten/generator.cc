#include "aten/generator.h"

#include <ATen/ATen.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>

#include "aten/device.h"
#include "runtime/memory.h"

namespace torch_tpu::aten {

Generator::Generator(int device)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(true));
  return seed_;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  uint64_t words[2];
  TORCH_CHECK(state.numel() == sizeof words, "RNG state of the tpu device has ", sizeof words, " bytes, got ",
              state.numel());
  std::memcpy(words, state.data(), sizeof words);
  seed_ = words[0];
  offset_ = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const uint64_t words[2] = {seed_, offset_};
  at::Tensor state = at::detail::empty_cpu({sizeof words}, at::kByte, {}, {}, {}, {});
  std::memcpy(state.mutable_data_ptr(), words, sizeof words);
  return state.getIntrusivePtr();
}

void Generator::reserve(int64_t blocks, uint64_t* seed, uint64_t* offset) {
  std::lock_guard lock(mutex_);
  *seed = seed_;
  *offset = offset_;
  offset_ += static_cast<uint64_t>(blocks);
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(int device) {
  static auto* const generators = [] {
    auto* all = new std::array<at::Generator, runtime::kMaxDevices>;
    for (int i = 0; i < runtime::kMaxDevices; ++i) (*all)[static_cast<size_t>(i)] = at::make_generator<Generator>(i);
    return all;
  }();
  if (device < 0) device = current_device();
  TORCH_CHECK(device < runtime::kMaxDevices, "no device tpu:", device);
  return (*generators)[static_cast<size_t>(device)];
}

Generator* checked_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.defined(), "Generator with undefined implementation is not allowed");
  TORCH_CHECK(generator.device().is_privateuseone(), "Expected a 'tpu' device type for generator but found '",
              generator.device().type(), "'");
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl());
}

}  // namespace torch_tpu::aten
