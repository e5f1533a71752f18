#include "aten/prepare.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "aten/bridge.h"
#include "aten/buckets.h"
#include "runtime/executor.h"
#include "runtime/session.h"

namespace torch_tpu::aten {
namespace {

bool is_mask(const at::Tensor& t) { return t.scalar_type() == at::kBool || t.scalar_type() == at::kByte; }

size_t argument_position(const OpEntry& entry, const char* name) {
  for (size_t i = 0; i < entry.arguments.size(); ++i)
    if (entry.arguments[i].name == name) return i;
  TORCH_INTERNAL_ASSERT(false, entry.name, " has no argument ", name);
}

c10::IValue& argument(const OpEntry& entry, torch::jit::Stack* stack, const char* name) {
  return (*stack)[stack->size() - entry.arguments.size() + argument_position(entry, name)];
}

// One write of a single number through one bool mask is masked_fill_, which needs no count of the mask.
bool as_masked_fill(const OpEntry& entry, torch::jit::Stack* stack) {
  bool has_accumulate = false;
  for (const auto& a : entry.arguments) has_accumulate |= a.name == "accumulate";
  if (!has_accumulate || !entry.writes_results || argument(entry, stack, "accumulate").toBool()) return false;
  const at::Tensor self = argument(entry, stack, "self").toTensor();
  const at::Tensor values = argument(entry, stack, "values").toTensor();
  if (values.numel() != 1 || entry.arguments[0].name != "self" || entry.arguments[0].returned_as != 0) return false;
  at::Tensor mask;
  int64_t leading = 0;
  for (const c10::IValue& v : argument(entry, stack, "indices").toList()) {
    if (v.isNone() || !v.toTensor().defined()) {
      if (!mask.defined()) ++leading;
      continue;
    }
    if (mask.defined() || !is_mask(v.toTensor())) return false;
    mask = v.toTensor();
  }
  if (!mask.defined()) return false;
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (leading + d >= self.dim() || mask.size(d) != self.size(leading + d)) return false;  // the ordinary path raises
  at::Tensor wide = mask.to(at::kBool).to(self.device());
  for (int64_t d = leading + mask.dim(); d < self.dim(); ++d) wide = wide.unsqueeze(-1);
  at::Tensor target = self;
  target.masked_fill_(wide, values.reshape({}).to(self.scalar_type()));
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(entry.arguments.size()), stack->end());
  stack->emplace_back(target);
  return true;
}

// Masks become index tensors, index tensors come to the device.
bool prepare_indices(const OpEntry& entry, torch::jit::Stack* stack) {
  const c10::IValue& value = argument(entry, stack, "indices");
  const at::Device device = argument(entry, stack, "self").toTensor().device();
  bool plain = true;
  for (const c10::IValue& v : value.toList())
    if (!v.isNone() && v.toTensor().defined()) plain &= !is_mask(v.toTensor()) && v.toTensor().device() == device;
  if (plain) return false;
  if (as_masked_fill(entry, stack)) return true;
  const at::Tensor self = argument(entry, stack, "self").toTensor();
  c10::List<std::optional<at::Tensor>> indices;
  for (const c10::IValue& v : argument(entry, stack, "indices").toList()) {
    if (v.isNone() || !v.toTensor().defined()) {
      indices.push_back(std::nullopt);
      continue;
    }
    const at::Tensor t = v.toTensor();
    if (!is_mask(t)) {
      indices.push_back(t.to(device));
      continue;
    }
    for (int64_t d = 0; d < t.dim(); ++d) {
      const int64_t at = static_cast<int64_t>(indices.size()) + d;
      TORCH_CHECK_INDEX(at < self.dim() && t.size(d) == self.size(at), "The shape of the mask ", t.sizes(),
                        " at index ", d, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                        at);
    }
    const at::Tensor found = t.to(device).nonzero();
    for (int64_t d = 0; d < t.dim(); ++d) indices.push_back(found.select(1, d));
  }
  argument(entry, stack, "indices") = indices;
  return false;
}

// Values may be a CPU scalar.
bool prepare_index_put(const OpEntry& entry, torch::jit::Stack* stack) {
  c10::IValue& values = argument(entry, stack, "values");
  const at::Tensor self = argument(entry, stack, "self").toTensor();
  if (values.toTensor().device() != self.device() && values.toTensor().numel() == 1)
    values = values.toTensor().to(self.device());
  return prepare_indices(entry, stack);
}

// Sampling takes its parameters as runtime values, which a lowering cannot check: here they are numbers still. The
// texts are ATen's.
bool check_sampling_arguments(const OpEntry& entry, torch::jit::Stack* stack) {
  const size_t first = stack->size() - entry.arguments.size();
  const auto number = [&](const char* name) {
    const c10::IValue& v = (*stack)[first + argument_position(entry, name)];
    return v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble();
  };
  const std::string name = entry.name.substr(entry.name.find("::") + 2);
  if (name == "uniform_") {
    const double from = number("from"), to = number("to");
    TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  } else if (name == "normal_" || name == "normal.Tensor_float") {
    TORCH_CHECK(number("std") >= 0, "normal expects std >= 0.0, but found std ", number("std"));
  } else if (name == "random_.from") {
    const c10::IValue &from = argument(entry, stack, "from"), &to = argument(entry, stack, "to");
    TORCH_CHECK(to.isNone() || from.toInt() < to.toInt(),
                "random_ expects 'from' to be less than 'to', but got from=", from.toInt(),
                " >= to=", to.isNone() ? 0 : to.toInt());
  } else if (name == "random_.to") {
    const int64_t to = argument(entry, stack, "to").toInt();
    TORCH_CHECK(to > 0, "random_ expects 'from' to be less than 'to', but got from=0 >= to=", to);
  } else if (name == "bernoulli_.float" || name == "bernoulli.p") {
    const double p = number("p");
    TORCH_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  } else if (name == "exponential_") {
    TORCH_CHECK(number("lambd") > 0, "exponential_ expects lambda > 0.0, but found lambda=", number("lambd"));
  } else if (name == "geometric_") {
    const double p = number("p");
    TORCH_CHECK(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  } else if (name == "log_normal_") {
    TORCH_CHECK(number("std") > 0, "log_normal_ expects std > 0.0, but found std=", number("std"));
  } else if (name == "cauchy_") {
    TORCH_CHECK(number("sigma") > 0, "cauchy_ expects sigma > 0.0, but found sigma=", number("sigma"));
  }
  return false;
}

// PyTorch resolves lazily conjugated and negated arguments, and zeros without memory, before it calls a kernel, except
// for a few ops whose CPU and CUDA kernels take them as they are (aten/src/ATen/ConjugateFallback.cpp,
// ZeroTensorFallback.cpp). The programs see memory, so they resolve here.
bool resolve_lazy_arguments(const OpEntry& entry, torch::jit::Stack* stack) {
  const size_t first = stack->size() - entry.arguments.size();
  at::Tensor written;
  for (size_t i = 0; i < entry.arguments.size(); ++i) {
    c10::IValue& v = (*stack)[first + i];
    if (!v.isTensor()) continue;
    const at::Tensor t = v.toTensor();
    if (!t.defined()) continue;
    if (t._is_zerotensor()) {  // immutable: never one that is written
      v = at::zeros({}, t.options()).expand(t.sizes());
      continue;
    }
    if (!t.is_conj() && !t.is_neg()) continue;
    if (entry.arguments[i].returned_as >= 0) written = t;
    v = t.resolve_conj().resolve_neg();
  }
  if (!written.defined()) return false;
  run_entry(entry, stack);
  stack->back() = written.copy_(stack->back().toTensor());
  return true;
}

// The scalars of these come as a tensor on the CPU.
bool move_scalars(const OpEntry& entry, torch::jit::Stack* stack) {
  c10::IValue& scalars = argument(entry, stack, "scalars");
  scalars = scalars.toTensor().to(argument(entry, stack, "self").toTensorVector().at(0).device());
  return false;
}

// Factorizations that raise for a matrix they cannot factor, where the caller asks for that: reads `info`, the last
// result.
bool check_factorization(const OpEntry& entry, torch::jit::Stack* stack) {
  c10::IValue& check_errors = argument(entry, stack, "check_errors");
  if (!check_errors.toBool()) return false;
  check_errors = false;
  const bool is_matrix = (*stack)[stack->size() - entry.arguments.size()].toTensor().dim() == 2;
  const std::string name = entry.name.substr(6, entry.name.find('.') - 6);
  static const std::map<std::string, const char*> callers = {
      {"linalg_cholesky_ex", "linalg.cholesky_ex"},           {"linalg_inv_ex", "linalg.inv_ex"},
      {"linalg_lu_factor_ex", "torch.linalg.lu_factor_ex"},   {"_linalg_solve_ex", "torch.linalg.solve_ex"},
      {"linalg_ldl_factor_ex", "torch.linalg.ldl_factor_ex"},
  };
  run_entry(entry, stack);
  at::_linalg_check_errors(stack->back().toTensor(), callers.at(name), is_matrix);
  return true;
}

// Scans into `out` compute in its dtype.
bool scan_in_out_dtype(const OpEntry& entry, torch::jit::Stack* stack) {
  c10::IValue& dtype = argument(entry, stack, "dtype");
  if (dtype.isNone()) dtype = argument(entry, stack, "out").toTensor().scalar_type();
  return false;
}

bool some_overlap(const c10::List<at::Tensor>& list) {
  std::unordered_map<const void*, std::vector<at::Tensor>> by_storage;
  for (const at::Tensor& t : list) {
    std::vector<at::Tensor>& others = by_storage[t.storage().unsafeGetStorageImpl()];
    for (const at::Tensor& other : others)
      if (at::get_overlap_status(t, other) != at::MemOverlapStatus::No) return true;
    others.push_back(t);
  }
  return false;
}

// Lists are written in one program, which reads everything first. Where elements share memory, each must see what was
// written before it.
bool write_in_turn(const OpEntry& entry, torch::jit::Stack* stack) {
  const size_t first = stack->size() - entry.arguments.size();
  const c10::List<at::Tensor> list = (*stack)[first].toTensorList();
  if (list.size() < 2 || !some_overlap(list)) return false;
  for (size_t i = 0; i < list.size(); ++i) {
    torch::jit::Stack one;
    for (size_t k = first; k < stack->size(); ++k) {
      if (!(*stack)[k].isList()) {
        one.push_back((*stack)[k]);
        continue;
      }
      const c10::impl::GenericList all = (*stack)[k].toList();
      c10::impl::GenericList element(all.elementType());
      element.push_back(all.get(i));
      one.push_back(element);
    }
    run_entry(entry, &one);
  }
  stack->erase(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  return true;
}

// The absolute values of complex numbers are real: they have no place in self.
bool refuse_complex_abs(const OpEntry& entry, torch::jit::Stack* stack) {
  for (const at::Tensor& t : argument(entry, stack, "self").toTensorVector())
    TORCH_CHECK(!t.is_complex(), "In-place abs is not supported for complex tensors.");
  return write_in_turn(entry, stack);
}

// Lengths that the host knows become tensors, so that new ones are no new program, and rows of targets that follow one
// another become rows of a matrix, as wide as a bucket.
bool ctc_lengths_as_tensors(const OpEntry& entry, torch::jit::Stack* stack) {
  const at::Tensor log_probs = argument(entry, stack, "log_probs").toTensor();
  at::Tensor targets = argument(entry, stack, "targets").toTensor();
  if (log_probs.dim() != 3 || targets.dim() < 1 || targets.dim() > 2 || targets.numel() == 0) return false;
  const auto checked = [&](const char* name, int64_t most) {
    std::vector<int64_t> lengths = argument(entry, stack, name).toIntVector();
    TORCH_CHECK(static_cast<int64_t>(lengths.size()) == log_probs.size(1), name, " must be of size batch_size");
    for (const int64_t n : lengths) {
      TORCH_CHECK(n >= 0, "Expected ", name, " to have value at least 0, but got value ", n, " (while checking ",
                  entry.name, ")");
      TORCH_CHECK(n <= most, "Expected ", name, " to have value at most ", most, ", but got value ", n,
                  " (while checking ", entry.name, ")");
    }
    return lengths;
  };
  const std::vector<int64_t> inputs = checked("input_lengths", log_probs.size(0));
  const std::vector<int64_t> lengths = checked("target_lengths", targets.sizes().back());
  const auto on_device = [&](const std::vector<int64_t>& values) {
    return at::tensor(values, at::kLong).to(log_probs.device());
  };
  if (targets.dim() == 1) {
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    TORCH_CHECK(total == targets.numel(), "Expected targets to have ", total, " elements, the sum of target_lengths, ",
                "but got ", targets.numel(), " (while checking ", entry.name, ")");
    const int64_t width = bucket(*std::max_element(lengths.begin(), lengths.end()), targets.numel());
    std::vector<int64_t> positions;
    int64_t start = 0;
    for (const int64_t n : lengths) {
      for (int64_t i = 0; i < width; ++i) positions.push_back(std::min(start + i, targets.numel() - 1));
      start += n;
    }
    targets = targets.index_select(0, on_device(positions)).view({-1, width});
  }
  const int64_t blank = argument(entry, stack, "blank").toInt();
  const bool zero_infinity = argument(entry, stack, "zero_infinity").toBool();
  std::vector<c10::IValue> results;
  if (entry.name == "aten::_ctc_loss") {
    const auto [loss, log_alpha] =
        at::_ctc_loss(log_probs, targets, on_device(inputs), on_device(lengths), blank, zero_infinity);
    results = {loss, log_alpha};
  } else {
    results = {at::_ctc_loss_backward(argument(entry, stack, "grad").toTensor(), log_probs, targets, on_device(inputs),
                                      on_device(lengths), argument(entry, stack, "neg_log_likelihood").toTensor(),
                                      argument(entry, stack, "log_alpha").toTensor(), blank, zero_infinity)};
  }
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(entry.arguments.size()), stack->end());
  for (c10::IValue& r : results) stack->push_back(std::move(r));
  return true;
}

// Sparse gradients of bags are PyTorch's composition of other ops.
bool sparse_bag_gradient(const OpEntry& entry, torch::jit::Stack* stack) {
  const auto a = torch::jit::last(*stack, entry.arguments.size());
  if (!a[9].toBool()) return false;
  const at::Tensor indices = a[1].toTensor(), offsets = a[2].toTensor();
  at::Tensor bag = a[3].toTensor();
  if (bag.numel() != indices.numel())  // the CPU's fast path leaves it empty
    bag = at::searchsorted(offsets, at::arange(indices.numel(), offsets.options()), false, /*right=*/true) - 1;
  at::Tensor gradient =
      at::_embedding_bag_sparse_backward(a[0].toTensor(), indices, offsets, bag, a[4].toTensor(), a[6].toInt(),
                                         a[7].toBool(), a[8].toInt(), a[10].toOptional<at::Tensor>(), a[11].toInt());
  torch::jit::drop(*stack, entry.arguments.size());
  stack->emplace_back(std::move(gradient));
  return true;
}

// Where self has gaps between its elements, the CPU's results have them, too: a view of self's copy is written, which
// is what PyTorch's kernel does.
bool scatter_into_gaps(const OpEntry& entry, torch::jit::Stack* stack) {
  const auto a = torch::jit::last(*stack, entry.arguments.size());
  const at::Tensor self = a[0].toTensor();
  if (self.is_non_overlapping_and_dense() || at::has_internal_overlap(self) == at::MemOverlap::Yes) return false;
  infer_results(*entry.own, a);  // for its errors
  const at::Tensor result = at::empty_strided(self.sizes(), self.strides(), self.options());
  result.copy_(self);
  at::Tensor view;
  if (entry.name == "aten::select_scatter") {
    view = result.select(a[2].toInt(), a[3].toInt());
  } else if (entry.name == "aten::slice_scatter") {
    view = result.slice(a[2].toInt(), a[3].toOptional<int64_t>(), a[4].toOptional<int64_t>(), a[5].toInt());
  } else {
    view = result.diagonal(a[2].toInt(), a[3].toInt(), a[4].toInt());
  }
  view.copy_(a[1].toTensor());
  torch::jit::drop(*stack, entry.arguments.size());
  stack->emplace_back(result);
  return true;
}

// New zeros need no program, and so no compilation for each shape, where device memory is the host's.
bool zero_new_memory(const OpEntry&, torch::jit::Stack* stack) {
  const at::Tensor& self = stack->back().toTensor();
  if (!is_device_tensor(self)) return false;
  runtime::Storage& storage = storage_of(self);
  if (storage.buffer || !self.is_non_overlapping_and_dense() || !runtime::Session::get().client().has_host_memory())
    return false;
  translate_errors([&] { runtime::materialize(storage); });
  return true;
}

}  // namespace

bool (*prepare_function(const std::string& name))(const OpEntry&, torch::jit::Stack*) {
  static const std::map<std::string, bool (*)(const OpEntry&, torch::jit::Stack*)> table = {
      {"index.Tensor", prepare_indices},
      {"index.Tensor_out", prepare_indices},
      {"_unsafe_index.Tensor", prepare_indices},
      {"index_put", prepare_index_put},
      {"index_put_", prepare_index_put},
      {"index_put.out", prepare_index_put},
      {"_index_put_impl_", prepare_index_put},
      {"_unsafe_index_put", prepare_index_put},
      {"_foreach_addcmul.Tensor", move_scalars},
      {"_foreach_addcmul.Tensor_out", move_scalars},
      {"_foreach_addcmul_.Tensor", move_scalars},
      {"_foreach_addcdiv.Tensor", move_scalars},
      {"_foreach_addcdiv.Tensor_out", move_scalars},
      {"_foreach_addcdiv_.Tensor", move_scalars},
      {"_foreach_abs_", refuse_complex_abs},
      {"select_scatter", scatter_into_gaps},
      {"slice_scatter", scatter_into_gaps},
      {"diagonal_scatter", scatter_into_gaps},
      {"zero_", zero_new_memory},
      {"_embedding_bag_backward", sparse_bag_gradient},
      {"_ctc_loss", ctc_lengths_as_tensors},
      {"_ctc_loss_backward", ctc_lengths_as_tensors},
      {"uniform_", check_sampling_arguments},
      {"normal_", check_sampling_arguments},
      {"normal.Tensor_float", check_sampling_arguments},
      {"random_.from", check_sampling_arguments},
      {"random_.to", check_sampling_arguments},
      {"bernoulli_.float", check_sampling_arguments},
      {"bernoulli.p", check_sampling_arguments},
      {"exponential_", check_sampling_arguments},
      {"geometric_", check_sampling_arguments},
      {"log_normal_", check_sampling_arguments},
      {"cauchy_", check_sampling_arguments},
      {"linalg_cholesky_ex", check_factorization},
      {"linalg_cholesky_ex.L", check_factorization},
      {"linalg_inv_ex", check_factorization},
      {"linalg_inv_ex.inverse", check_factorization},
      {"linalg_lu_factor_ex", check_factorization},
      {"linalg_lu_factor_ex.out", check_factorization},
      {"_linalg_solve_ex", check_factorization},
      {"_linalg_solve_ex.result", check_factorization},
      {"linalg_ldl_factor_ex", check_factorization},
      {"linalg_ldl_factor_ex.out", check_factorization},
      {"cumsum.out", scan_in_out_dtype},
      {"cumprod.out", scan_in_out_dtype},
      {"_conj_physical", resolve_lazy_arguments},
      {"dot", resolve_lazy_arguments},
      {"vdot", resolve_lazy_arguments},
      {"mul.Scalar", resolve_lazy_arguments},
      {"add.Scalar", resolve_lazy_arguments},
      {"mm", resolve_lazy_arguments},
      {"bmm", resolve_lazy_arguments},
      {"addmm", resolve_lazy_arguments},
      {"addmm_", resolve_lazy_arguments},
      {"baddbmm", resolve_lazy_arguments},
      {"baddbmm_", resolve_lazy_arguments},
  };
  if (auto it = table.find(name); it != table.end()) return it->second;
  return name.starts_with("_foreach_") && name.substr(0, name.find('.')).ends_with('_') ? write_in_turn : nullptr;
}

}  // namespace torch_tpu::aten
