// The convolutions that bear the names of CPU algorithms (torch._C._nn.slow_conv3d and the like): the one convolution
// under other arguments.
#include "lowering/helpers.h"
#include "lowering/registry.h"
#include "lowering/windows.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

using Arguments = std::map<std::string, Argument, std::less<>>;

// The tensor with a batch dim of one in front.
TensorArgument batched(const TensorArgument& t) {
  TensorArgument b = t;
  b.type.dims.insert(b.type.dims.begin(), 1);
  b.load = [load = t.load, dims = b.type.dims] { return reshape(load(), dims); };
  return b;
}

// `argument` names the tensors of the call by the names that convolution_overrideable has for them.
Arguments convolution_arguments(const Op& op, size_t n, bool transposed,
                                const std::vector<std::pair<std::string, std::string>>& tensors) {
  Arguments a;
  for (const auto& [to, from] : tensors) {
    a[to] = op.arguments().at(from);
    if (auto* t = std::get_if<TensorArgument>(&a[to].value);
        t && to != "weight" && to != "bias" && t->type.dims.size() == n + 1)
      a[to].value = batched(*t);
  }
  const auto given = [&](const char* name, int64_t otherwise) -> Argument {
    return {op.arguments().contains(name) ? expand_ints(op.integers(name), n) : Dims(n, otherwise)};
  };
  a["stride"] = given("stride", 1);
  a["padding"] = given("padding", 0);
  a["dilation"] = given("dilation", 1);
  a["output_padding"] = given("output_padding", 0);
  a["transposed"] = {transposed};
  a["groups"] = {int64_t{1}};
  return a;
}

Results run(const Op& op, const char* name, Arguments arguments) {
  Op convolution = op.with(name, std::move(arguments), {});
  return Registry::instance().find(name)->run(convolution);
}

template <size_t n, bool transposed>
Value forward(Op& op) {
  Value y =
      run(op, "convolution_overrideable",
          convolution_arguments(op, n, transposed, {{"input", "self"}, {"weight", "weight"}, {"bias", "bias"}}))[0];
  if (op.rank("self") == n + 1) y = reshape(y, Dims(y.dims().begin() + 1, y.dims().end()));
  return y;
}

Results backward(Op& op) {
  Arguments a =
      convolution_arguments(op, 2, false, {{"grad_output", "grad_output"}, {"input", "self"}, {"weight", "weight"}});
  a["output_mask"] = op.arguments().at("output_mask");
  Results r = run(op, "convolution_backward_overrideable", std::move(a));
  if (r[0].defined() && op.rank("self") == 3) r[0] = reshape(r[0], op.dims("self"));
  return r;
}

}  // namespace

void register_convolution_slow(Registry& r) {
  r.add("_slow_conv2d_forward", forward<2, false>);
  r.add("_slow_conv2d_backward.output_mask", backward);
  r.add("slow_conv_dilated2d", forward<2, false>);
  r.add("slow_conv_transpose2d", forward<2, true>);
  r.add("slow_conv3d_forward", forward<3, false>);
  r.add("slow_conv_dilated3d", forward<3, false>);
  r.add("slow_conv_transpose3d", forward<3, true>);
}

}  // namespace torch_tpu::lowering
