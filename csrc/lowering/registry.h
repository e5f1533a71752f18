// The table of lowerings, by ATen overload name without namespace ("add.Tensor", "relu"). Only functional overloads are
// registered: `add_.Tensor` and `add.out` follow from the functional form by matching schemas.
//
// A registration is all that is declared of an op. docs/coverage.md is made from it (tools/coverage.py).
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lowering/op.h"

namespace torch_tpu::lowering {

using LoweringFunction = Results (*)(Op&);
using SingleLoweringFunction = Value (*)(Op&);

struct Lowering {
  std::string name;
  LoweringFunction function = nullptr;
  SingleLoweringFunction single = nullptr;  // the common case of one result
  // Scalar and float arguments whose value the lowering reads: they become part of the key.
  std::vector<std::string> structural_scalars;
  // int arguments that the lowering takes as runtime values through scalar(): they leave the key.
  std::vector<std::string> runtime_integers;
  // Arguments that are written although the schema does not say so (native_batch_norm's running statistics).
  std::vector<std::string> hidden_writes;
  // Results follow the dense strides of this argument when they have its dims (where no meta kernel says otherwise).
  std::string strides_of;
  // Images (4-D, 5-D results) are channels-last where one of these arguments is, as convolutions have it on the CPU.
  std::vector<std::string> image_format_of;
  // Where a result differs from what PyTorch's meta kernel says, the lowering is right (as the CPU kernel is).
  bool has_own_results = false;
  // Results that are matrices laid out column by column, as LAPACK leaves them.
  std::vector<size_t> column_major_results;
  // An op of this project's own, which is not in the dispatcher (called by the ATen bridge).
  bool internal = false;
  // What a user should know: the algorithm, what differs from the CPU. Shown in docs/coverage.md.
  std::string remark;
  // Types of arguments or results that no TPU program can be made for, and why.
  struct TpuLimit {
    std::vector<ElementType> types;
    std::string reason;
  };
  std::vector<TpuLimit> tpu_limits;

  // Throws Unsupported where the target cannot serve the call's types.
  Results run(Op& op) const;

  Lowering& structural(std::vector<std::string> names) { return structural_scalars = std::move(names), *this; }
  Lowering& runtime(std::vector<std::string> names) { return runtime_integers = std::move(names), *this; }
  Lowering& mutates(std::vector<std::string> names) { return hidden_writes = std::move(names), *this; }
  Lowering& like(std::string argument) { return strides_of = std::move(argument), *this; }
  Lowering& column_major(std::vector<size_t> results) { return column_major_results = std::move(results), *this; }
  Lowering& own_results() { return has_own_results = true, *this; }
  Lowering& image_format(std::vector<std::string> names) { return image_format_of = std::move(names), *this; }
  Lowering& note(std::string text) { return remark = std::move(text), *this; }
  Lowering& not_on_tpu(std::vector<ElementType> types, std::string reason) {
    return tpu_limits.push_back({std::move(types), std::move(reason)}), *this;
  }
};

class Registry {
 public:
  Lowering& add(std::string name, SingleLoweringFunction function);
  Lowering& add(std::string name, LoweringFunction function);
  // An op that only the bridge calls, under a name of its own ("tpu.arange").
  Lowering& add_internal(std::string name, SingleLoweringFunction function);

  const Lowering* find(std::string_view name) const;
  const std::deque<Lowering>& all() const { return lowerings_; }

  static const Registry& instance();  // every family registered

 private:
  Lowering& insert(Lowering lowering);
  std::deque<Lowering> lowerings_;
  std::unordered_map<std::string, Lowering*> by_name_;
};

// One function a family, called by Registry::instance().
void register_pointwise_unary(Registry&);
void register_special_unary(Registry&);  // called by register_pointwise_unary
void register_pointwise_binary(Registry&);
void register_pointwise_compare(Registry&);  // called by register_pointwise_binary
void register_special_binary(Registry&);     // the same
void register_polynomial(Registry&);         // the same
void register_activation(Registry&);
void register_activation_backward(Registry&);  // called by register_activation
void register_copy(Registry&);
void register_factory(Registry&);
void register_reduce(Registry&);
void register_reduce_statistics(Registry&);  // called by register_reduce
void register_reduce_select(Registry&);      // the same
void register_scan(Registry&);
void register_sort(Registry&);
void register_matmul(Registry&);
void register_attention(Registry&);
void register_convolution(Registry&);
void register_pool(Registry&);
void register_normalization(Registry&);
void register_softmax(Registry&);
void register_index(Registry&);
void register_scatter(Registry&);
void register_embedding(Registry&);
void register_shape(Registry&);
void register_loss(Registry&);
void register_loss_class(Registry&);  // called by register_loss
void register_loss_ctc(Registry&);    // the same
void register_distance(Registry&);    // the same
void register_random(Registry&);
void register_random_sampling(Registry&);  // called by register_random
void register_foreach(Registry&);
void register_optimizer(Registry&);
void register_amp(Registry&);
void register_quantize(Registry&);
void register_rnn(Registry&);
void register_sparse(Registry&);
void register_jagged(Registry&);
void register_fft(Registry&);
void register_linalg(Registry&);
void register_linalg_lu(Registry&);  // called by register_linalg
void register_linalg_qr(Registry&);  // the same
void register_linalg_spectral(Registry&);
void register_linalg_eig(Registry&);
void register_linalg_exp(Registry&);
void register_linalg_ldl(Registry&);
// Parts of families, called by their family.
void register_convolution_slow(Registry&);
void register_quantized_matmul(Registry&);
void register_observer(Registry&);
void register_batch_norm(Registry&);
void register_segment(Registry&);
void register_index_dim(Registry&);
void register_index_mask(Registry&);
void register_index_backward(Registry&);
void register_embedding_bag(Registry&);
void register_triangular(Registry&);
void register_pool_average(Registry&);
void register_pool_adaptive(Registry&);
void register_pool_unpool(Registry&);
void register_upsample(Registry&);
void register_pad(Registry&);
void register_patches(Registry&);
void register_grid_sampler(Registry&);

}  // namespace torch_tpu::lowering
