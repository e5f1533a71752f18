// Input errors that PyTorch's meta kernels do not raise, or raise in other words than the CPU's kernels. On misses
// only: a call that was refused is not cached.
#include "aten/input_checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "aten/bridge.h"

namespace torch_tpu::aten {
namespace {

const at::Tensor* tensor_named(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments,
                               const char* name) {
  const auto index = schema.argumentIndexWithName(name);
  if (!index || static_cast<size_t>(*index) >= arguments.size()) return nullptr;
  const c10::IValue& v = arguments[static_cast<size_t>(*index)];
  return v.isTensor() && v.toTensor().defined() ? &v.toTensor() : nullptr;
}

// Products take operands of one dtype.
void check_product(const std::string& name, const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments) {
  const at::Tensor *first = nullptr, *second = nullptr;
  for (const auto& [a, b] : {std::pair{"mat1", "mat2"},
                             {"batch1", "batch2"},
                             {"mat", "vec"},
                             {"self", "mat2"},
                             {"self", "vec"},
                             {"self", "tensor"},
                             {"self", "other"}}) {
    first = tensor_named(schema, arguments, a);
    second = tensor_named(schema, arguments, b);
    if (first && second) break;
  }
  if (!first || !second || first->scalar_type() == second->scalar_type()) return;
  if (name == "dot" || name == "vdot")
    TORCH_CHECK(false, "dot : expected both vectors to have same dtype, but found ", first->scalar_type(), " and ",
                second->scalar_type());
  TORCH_CHECK(false, "expected m1 and m2 to have the same dtype, but got: ", first->dtype(), " != ", second->dtype());
}

at::Tensor to_cpu_zeros(const at::Tensor& t) {
  const size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  return at::zeros({static_cast<int64_t>(bytes / t.itemsize())}, t.options().device(at::kCPU).requires_grad(false))
      .as_strided(t.sizes(), t.strides());
}

c10::IValue to_cpu_zeros(const c10::IValue& v) {
  if (v.isTensor() && is_device_tensor(v.toTensor())) return to_cpu_zeros(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(is_device_tensor(t) ? to_cpu_zeros(t) : t);
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
      list.push_back(t && is_device_tensor(*t) ? std::optional<at::Tensor>(to_cpu_zeros(*t)) : t);
    return list;
  }
  if (v.isDevice()) return c10::Device(c10::DeviceType::CPU);
  if (v.isGenerator()) return c10::IValue();
  return v;
}

// Bytes of all tensors; -1 where there is none.
int64_t total_bytes(at::ArrayRef<c10::IValue> arguments) {
  int64_t bytes = -1;
  const auto add = [&](const at::Tensor& t) {
    if (!is_device_tensor(t)) return;
    bytes = std::max<int64_t>(bytes, 0) +
            static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
  };
  for (const c10::IValue& v : arguments) {
    if (v.isTensor()) add(v.toTensor());
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) add(t);
    if (v.isOptionalTensorList())
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
        if (t) add(*t);
  }
  return bytes;
}

std::string message_of(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  return error ? error->what_without_backtrace() : e.what();
}

// Keeps to itself what was said to somebody else already.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Whether zeros on the CPU can stand for the arguments: a kernel is there, they are small, nothing random is drawn.
bool can_run_on_cpu(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  constexpr int64_t kMost = int64_t{64} << 20;
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return false;
  for (const c10::Argument& a : op.schema().arguments())
    if (a.type()->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get()))) return false;
  const int64_t bytes = total_bytes(arguments);
  return bytes >= 0 && bytes <= kMost;
}

void run_on_cpu(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  torch::jit::Stack stack;
  for (const c10::IValue& v : arguments) stack.push_back(to_cpu_zeros(v));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.callBoxed(&stack);
}

}  // namespace

void check_inputs(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  static const auto* const products = new std::set<std::string>{
      "mm", "bmm", "addmm", "addmm_", "baddbmm", "baddbmm_", "mv", "addmv", "addmv_", "dot", "vdot"};
  static const auto* const orderings = new std::set<std::string>{"max",  "min",      "argmax", "argmin", "sort",
                                                                 "topk", "kthvalue", "median", "cummax", "cummin"};
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = schema.name().substr(schema.name().find("::") + 2);
  if (products->count(name)) return check_product(name, schema, arguments);
  if (orderings->count(name)) {
    const at::Tensor* self = tensor_named(schema, arguments, "self");
    TORCH_CHECK_NOT_IMPLEMENTED(!self || !self->is_complex(), name, " is not implemented for complex tensors");
  } else if (name == "index_put" || name == "index_put_" || name == "_index_put_impl_") {
    const at::Tensor *self = tensor_named(schema, arguments, "self"),
                     *values = tensor_named(schema, arguments, "values");
    TORCH_CHECK(!self || !values || self->scalar_type() == values->scalar_type(),
                "Index put requires the source and destination dtypes match, got ", self->scalar_type(),
                " for the destination and ", values->scalar_type(), " for the source.");
  } else if (name == "complex") {
    const at::Tensor *real = tensor_named(schema, arguments, "real"), *imag = tensor_named(schema, arguments, "imag");
    TORCH_CHECK(!real || !imag || real->scalar_type() == imag->scalar_type(), "Expected object of scalar type ",
                real->scalar_type(), " but got scalar type ", imag->scalar_type(), " for second argument");
  } else if (name == "multinomial") {
    const at::Tensor *self = tensor_named(schema, arguments, "self"), *out = tensor_named(schema, arguments, "out");
    TORCH_CHECK(!self || at::isFloatingType(self->scalar_type()),
                "multinomial only supports floating-point dtypes for input, got: ", self->scalar_type());
    TORCH_CHECK(!out || out->scalar_type() == at::kLong,
                "multinomial expects Long tensor out, got: ", out->scalar_type());
    const int64_t count = arguments[1].toInt();
    TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
    TORCH_CHECK(!self || arguments[2].toBool() || self->dim() == 0 || count <= self->size(-1),
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    TORCH_CHECK(!self || self->dim() == 0 || self->size(-1) <= int64_t{1} << 24,
                "number of categories cannot exceed 2^24");
  } else if (name == "nll_loss_forward" || name == "nll_loss2d_forward") {
    const at::Tensor* target = tensor_named(schema, arguments, "target");
    TORCH_CHECK(!target || target->scalar_type() == at::kLong || target->scalar_type() == at::kByte,
                "expected target dtype to be Long or Byte, but got ", target->scalar_type());
  }
}

void raise_as_on_cpu(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  if (can_run_on_cpu(op, arguments)) run_on_cpu(op, arguments);
}

void check_written(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, const std::vector<MetaResult>& results) {
  bool other_dtype = false;
  std::vector<c10::IValue> fitting(arguments.begin(), arguments.end());
  const auto want = [&](size_t i, c10::ScalarType dtype) {
    const at::Tensor& out = arguments[i].toTensor();
    if (out.scalar_type() == dtype) return;
    other_dtype = true;
    fitting[i] = at::empty_strided(out.sizes(), out.strides(), out.options().dtype(dtype));
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const OpEntry::Argument& a = entry.arguments[i];
    if (a.returned_as < 0 || !arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    const at::Tensor& written = arguments[i].toTensor();
    // Without a meta kernel, the first result is taken to have the first argument's dtype. Of others nothing is
    // assumed: kernels exist that trust the dtype of their indices.
    if (results.empty() && a.is_out && a.returned_as == 0 && arguments[0].isTensor())
      want(i, arguments[0].toTensor().scalar_type());
    if (static_cast<size_t>(a.returned_as) >= results.size()) continue;
    const MetaResult& result = results[static_cast<size_t>(a.returned_as)];
    if (!result.known || !result.defined) continue;
    if (!a.is_out) {
      TORCH_CHECK(written.sizes() == at::IntArrayRef(result.sizes), "output with shape ", written.sizes(),
                  " doesn't match the broadcast shape ", at::IntArrayRef(result.sizes));
      TORCH_CHECK(c10::canCast(result.dtype, written.scalar_type()), "result type ", result.dtype,
                  " can't be cast to the desired output type ", written.scalar_type());
    } else {
      want(i, result.dtype);
    }
  }
  if (!other_dtype || !can_run_on_cpu(*entry.own, arguments)) return;
  // Some CPU kernels cast to the dtype of `out`, some want it to be the result's, and nothing but the kernel says
  // which. Where it says the same of the result's dtype, it was the zeros that it refused.
  try {
    run_on_cpu(*entry.own, arguments);
  } catch (const std::exception& refusal) {
    try {
      run_on_cpu(*entry.own, fitting);
    } catch (const std::exception& other) {
      if (message_of(refusal) == message_of(other)) return;
    }
    throw;
  }
}

}  // namespace torch_tpu::aten
