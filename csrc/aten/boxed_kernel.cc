// The one kernel behind all lowered ops: from a boxed call to a cached program and back.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include <map>

#include "aten/bridge.h"
#include "aten/call_reader.h"
#include "aten/generator.h"
#include "aten/settings.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"
#include "runtime/program_cache.h"
#include "runtime/trace.h"

namespace torch_tpu::aten {
namespace {
using runtime::Call;

// Written tensors must not overlap themselves, nor an input (partly, or at all), as the op's CPU kernel has it.
void check_overlap(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments) {
  if (entry.overlap == OverlapRule::kAny) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (entry.arguments[i].returned_as < 0 || !arguments[i].isTensor()) continue;
    const at::Tensor& target = arguments[i].toTensor();
    if (!is_device_tensor(target)) continue;
    at::assert_no_internal_overlap(target);
    const auto check = [&](const at::Tensor& input, bool is_self) {
      if (!is_device_tensor(input)) return;
      if (entry.overlap == OverlapRule::kNone || (entry.overlap == OverlapRule::kNoneButSelf && !is_self)) {
        at::assert_no_overlap(target, input);
      } else {
        at::assert_no_partial_overlap(target, input);
      }
    };
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (entry.arguments[k].returned_as >= 0) continue;
      if (arguments[k].isTensor()) check(arguments[k].toTensor(), entry.arguments[k].name == "self");
      if (arguments[k].isTensorList() && !entry.is_foreach)
        for (const at::Tensor& t : arguments[k].toTensorVector()) check(t, false);
    }
  }
}

// A zero-dimensional CPU tensor may be read here, as a number, but not written.
void check_written_devices(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (entry.arguments[i].returned_as < 0 || !arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    const at::Tensor& target = arguments[i].toTensor();
    TORCH_CHECK(is_device_tensor(target), entry.name, ": expected all tensors to be on the same device, but ",
                entry.arguments[i].name, ", which is written, is on ", target.device());
  }
}

bool shares_storage(const Call& call) {
  for (size_t i = 1; i < call.tensors.size() && i < 8; ++i)
    for (size_t k = 0; k < i; ++k)
      if (call.tensors[i].storage && call.tensors[i].storage == call.tensors[k].storage) return true;
  return false;
}

// CPU kernels that resize `out` in a way of their own.
struct ResizeHabit {
  bool warns = true;
  // Whether `out` also gets the strides of the result: where it had elements, and where it had none.
  bool strides_if_full = true, strides_if_empty = true;
};

ResizeHabit resize_habit(const std::string& name) {
  static const ResizeHabit quiet{false, false, false}, plain{true, false, false}, lapack{true, false, true};
  static const auto* const habits = new std::map<std::string, ResizeHabit>{
      {"addbmm.out", quiet},
      {"bernoulli.out", quiet},
      {"multinomial.out", quiet},
      {"narrow_copy.out", quiet},
      {"log_sigmoid_forward.output", quiet},
      {"_fft_c2c.out", plain},
      {"_fft_c2r.out", plain},
      {"_fft_r2c.out", plain},
      {"linalg_householder_product.out", lapack},
      {"ormqr.out", lapack},
      {"geqrf.a", lapack},
      {"linalg_eig.out", lapack},
      {"cholesky_inverse.out", lapack},
  };
  const auto it = habits->find(name.substr(name.find("::") + 2));
  return it == habits->end() ? ResizeHabit{} : it->second;
}

// The functional form's result types; where PyTorch has no meta kernel to ask, it is run.
std::vector<MetaResult> result_types(const OpEntry& entry, std::vector<c10::IValue> arguments) {
  std::vector<MetaResult> results = infer_results(*entry.functional, arguments);
  for (const size_t i : entry.lowering->column_major_results) {
    if (i >= results.size() || results[i].sizes.size() < 2) continue;
    results[i].strides.end()[-2] = 1;
    results[i].strides.end()[-1] = results[i].sizes.end()[-2];
  }
  if (!results.empty()) return results;
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    entry.functional->callBoxed(&arguments);
  }
  const auto add = [&](const at::Tensor& t) {
    results.push_back({true, t.defined(), t.scalar_type(), t.sizes().vec(), t.strides().vec()});
  };
  for (const c10::IValue& v : arguments) {
    if (v.isTensor()) add(v.toTensor());
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) add(t);
  }
  return results;
}

bool resize_output(const at::Tensor& out, const MetaResult& result, const ResizeHabit& habit) {
  if (!result.known || !result.defined || out.sizes() == at::IntArrayRef(result.sizes)) return false;
  const bool strides = out.numel() > 0 ? habit.strides_if_full : habit.strides_if_empty;
  if (habit.warns) {
    at::native::resize_output(out, result.sizes);
  } else {
    out.resize_(result.sizes);
  }
  if (strides) out.as_strided_(result.sizes, result.strides);
  return true;
}

// Out arguments get the size and the strides of the result, with PyTorch's warning where they had another size. Returns
// whether any changed.
bool resize_outputs(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments) {
  bool has_out = false;
  for (const auto& a : entry.arguments) has_out |= a.is_out;
  if (!has_out || !entry.functional) return false;
  std::vector<c10::IValue> functional;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!entry.arguments[i].is_out) functional.push_back(arguments[i]);
  const std::vector<MetaResult> results = result_types(entry, std::move(functional));
  const ResizeHabit habit = resize_habit(entry.name);
  bool changed = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& a = entry.arguments[i];
    if (!a.is_out || a.returned_as < 0) continue;
    auto index = static_cast<size_t>(a.returned_as);
    std::vector<at::Tensor> outs;
    if (arguments[i].isTensor()) outs.push_back(arguments[i].toTensor());
    if (arguments[i].isTensorList()) outs = arguments[i].toTensorVector();
    for (const at::Tensor& out : outs)
      if (index < results.size()) changed |= resize_output(out, results[index++], habit);
  }
  return changed;
}

// Puts the results where the arguments were.
void return_results(const OpEntry& entry, torch::jit::Stack* stack, size_t num_arguments,
                    std::vector<at::Tensor> fresh) {
  const size_t first = stack->size() - num_arguments;
  if (entry.returns_list) {
    stack->erase(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
    stack->emplace_back(c10::List<at::Tensor>(at::ArrayRef<at::Tensor>(fresh)));
    return;
  }
  size_t next = 0;
  torch::jit::Stack results;
  for (size_t i = 0; i < entry.return_argument.size(); ++i) {
    const int argument = entry.return_argument[i];
    if (argument >= 0) {
      results.push_back((*stack)[first + static_cast<size_t>(argument)]);
    } else if (entry.returns_integer[i]) {
      // What only this backend's own backward gets back, and does not need. It takes a result's place.
      results.emplace_back(int64_t{0});
      ++next;
    } else {
      results.emplace_back(next < fresh.size() ? std::move(fresh[next]) : at::Tensor());
      ++next;
    }
  }
  stack->erase(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  for (c10::IValue& v : results) stack->push_back(std::move(v));
}

}  // namespace

void run_entry(const OpEntry& entry, torch::jit::Stack* stack) {
  const size_t num_arguments = entry.arguments.size();
  const at::ArrayRef<c10::IValue> arguments(stack->data() + (stack->size() - num_arguments), num_arguments);
  const lowering::Numerics numerics = current_numerics();
  Call call;
  Irregular irregular;
  fill_call(entry, arguments, irregular, numerics, call);
  if (entry.writes_results && shares_storage(call)) check_overlap(entry, arguments);

  std::shared_ptr<const runtime::Program> program;
  runtime::InlineVector<int64_t, 32> starts;
  bool hit = true;
  const bool fused = runtime::eager_mode() == runtime::EagerMode::kFused;
  translate_errors([&] {
    for (;;) {
      const uint64_t hash = runtime::hash_words(call.key.data(), call.key.size());
      program = runtime::ProgramCache::instance().find(call.key, hash);
      if (!program) {
        hit = false;
        if (entry.writes_results) {
          check_written_devices(entry, arguments);
          check_overlap(entry, arguments);
          if (resize_outputs(entry, arguments)) {
            fill_call(entry, arguments, irregular, numerics, call);
            continue;
          }
        }
        runtime::CallDescription description = describe_call(entry, arguments, call, irregular);
        description.numerics = numerics;
        program = runtime::build_program(call, std::move(description), hash, !fused);
      }
      starts.resize(static_cast<size_t>(program->num_starts));
      if (program->compute_starts(call, starts.data(), &irregular)) break;
      fill_call(entry, arguments, irregular, numerics, call);
    }
    if (hit && !fused) ++runtime::metrics().cache_hits_memory;
    if (program->random_blocks > 0 && !call.random) call.random = default_generator(call.device).get<Generator>();
  });

  std::vector<at::Tensor> fresh;
  translate_errors([&] {
    constexpr size_t kMany = 16;
    size_t defined = 0;
    for (const auto& r : program->results) defined += r.defined;
    runtime::BufferRef local[kMany];
    std::vector<runtime::BufferRef> heap(defined > kMany ? defined : 0);
    const std::span<runtime::BufferRef> buffers = defined > kMany ? std::span(heap) : std::span(local, defined);
    if (fused) {
      runtime::trace_queue(call.device).record(program, call, starts.data(), buffers);
    } else {
      runtime::execute(*program, call, starts.data(), buffers);
    }
    size_t next = 0;
    fresh.reserve(program->results.size());
    for (const auto& r : program->results)
      fresh.push_back(r.defined ? make_tensor(std::move(buffers[next++]), r, call.device) : at::Tensor());
  });
  return_results(entry, stack, num_arguments, std::move(fresh));
}

}  // namespace torch_tpu::aten
