// Random number state: a seed and a counter of 128-bit Philox blocks, as CUDA's generators have.
#pragma once

#include <ATen/core/Generator.h>

#include "runtime/call.h"

namespace torch_tpu::aten {

class Generator final : public c10::GeneratorImpl, public runtime::RandomSource {
 public:
  explicit Generator(int device);

  // The caller of set_current_seed, seed, set_state holds mutex_, as PyTorch's helpers do.
  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;  // 16 bytes: seed, offset
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  void reserve(int64_t blocks, uint64_t* seed, uint64_t* offset) override;

 private:
  Generator* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(int device);
// The device's own kind of generator, which a call was given. Another device's is an error, as in CUDA.
Generator* checked_generator(const at::Generator& generator);

}  // namespace torch_tpu::aten
