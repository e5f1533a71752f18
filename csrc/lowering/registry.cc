#include "lowering/registry.h"

#include <algorithm>
#include <stdexcept>

namespace torch_tpu::lowering {
namespace {

// Whether some argument or known result of the call has one of the types.
bool uses_type(const Op& op, const std::vector<ElementType>& types) {
  const auto listed = [&](const TensorType& t) {
    return std::find(types.begin(), types.end(), t.element) != types.end();
  };
  for (const auto& [name, argument] : op.arguments()) {
    if (const auto* tensor = std::get_if<TensorArgument>(&argument.value); tensor && listed(tensor->type)) return true;
    if (const auto* list = std::get_if<TensorListArgument>(&argument.value))
      for (const auto& tensor : *list)
        if (tensor && listed(tensor->type)) return true;
  }
  for (size_t i = 0; i < op.num_results(); ++i)
    if (op.result_known(i) && listed(op.result_type(i))) return true;
  return false;
}

}  // namespace

Results Lowering::run(Op& op) const {
  if (op.target().is_tpu())
    for (const TpuLimit& limit : tpu_limits)
      if (uses_type(op, limit.types)) throw Unsupported(limit.reason);
  return single ? Results{single(op)} : function(op);
}

Lowering& Registry::insert(Lowering lowering) {
  lowerings_.push_back(std::move(lowering));
  Lowering& stored = lowerings_.back();
  if (!by_name_.emplace(stored.name, &stored).second) throw std::logic_error("two lowerings of " + stored.name);
  return stored;
}

Lowering& Registry::add(std::string name, SingleLoweringFunction function) {
  Lowering lowering;
  lowering.name = std::move(name);
  lowering.single = function;
  return insert(std::move(lowering));
}

Lowering& Registry::add(std::string name, LoweringFunction function) {
  Lowering lowering;
  lowering.name = std::move(name);
  lowering.function = function;
  return insert(std::move(lowering));
}

Lowering& Registry::add_internal(std::string name, SingleLoweringFunction function) {
  Lowering& lowering = add(std::move(name), function);
  lowering.internal = true;
  return lowering;
}

const Lowering* Registry::find(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}

const Registry& Registry::instance() {
  static const Registry* const registry = [] {
    auto* r = new Registry;  // never destroyed: kernels may run during interpreter shutdown
    register_pointwise_unary(*r);
    register_pointwise_binary(*r);
    register_activation(*r);
    register_copy(*r);
    register_factory(*r);
    register_reduce(*r);
    register_scan(*r);
    register_sort(*r);
    register_matmul(*r);
    register_attention(*r);
    register_convolution(*r);
    register_pool(*r);
    register_normalization(*r);
    register_softmax(*r);
    register_index(*r);
    register_scatter(*r);
    register_embedding(*r);
    register_shape(*r);
    register_loss(*r);
    register_random(*r);
    register_foreach(*r);
    register_optimizer(*r);
    register_amp(*r);
    register_quantize(*r);
    register_rnn(*r);
    register_sparse(*r);
    register_jagged(*r);
    register_fft(*r);
    register_linalg(*r);
    return r;
  }();
  return *registry;
}

}  // namespace torch_tpu::lowering
