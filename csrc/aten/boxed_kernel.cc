// The one kernel behind all lowered ops: from a boxed call to a cached program and back.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include "aten/bridge.h"
#include "aten/call_reader.h"
#include "aten/generator.h"
#include "aten/settings.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"
#include "runtime/program_cache.h"

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

bool shares_storage(const Call& call) {
  for (size_t i = 1; i < call.tensors.size() && i < 8; ++i)
    for (size_t k = 0; k < i; ++k)
      if (call.tensors[i].storage && call.tensors[i].storage == call.tensors[k].storage) return true;
  return false;
}

// Out arguments get the size of the result, with PyTorch's warning where they had another. Returns whether any changed.
bool resize_outputs(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments) {
  bool has_out = false;
  for (const auto& a : entry.arguments) has_out |= a.is_out;
  if (!has_out || !entry.functional) return false;
  std::vector<c10::IValue> functional;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!entry.arguments[i].is_out) functional.push_back(arguments[i]);
  const std::vector<MetaResult> results = infer_results(*entry.functional, functional);
  bool changed = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& a = entry.arguments[i];
    if (!a.is_out || !arguments[i].isTensor() || a.returned_as < 0) continue;
    const auto index = static_cast<size_t>(a.returned_as);
    if (index >= results.size() || !results[index].known || !results[index].defined) continue;
    const at::Tensor& out = arguments[i].toTensor();
    if (out.sizes() == at::IntArrayRef(results[index].sizes)) continue;
    at::native::resize_output(out, results[index].sizes);
    changed = true;
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
  translate_errors([&] {
    for (;;) {
      const uint64_t hash = runtime::hash_words(call.key.data(), call.key.size());
      program = runtime::ProgramCache::instance().find(call.key, hash);
      if (!program) {
        hit = false;
        if (entry.writes_results) {
          check_overlap(entry, arguments);
          if (resize_outputs(entry, arguments)) {
            fill_call(entry, arguments, irregular, numerics, call);
            continue;
          }
        }
        runtime::CallDescription description = describe_call(entry, arguments, call, irregular);
        description.numerics = numerics;
        program = runtime::build_program(call, description, hash);
      }
      starts.resize(static_cast<size_t>(program->num_starts));
      if (program->compute_starts(call, starts.data(), &irregular)) break;
      fill_call(entry, arguments, irregular, numerics, call);
    }
    if (hit) ++runtime::metrics().cache_hits_memory;
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
    runtime::execute(*program, call, starts.data(), buffers);
    size_t next = 0;
    fresh.reserve(program->results.size());
    for (const auto& r : program->results)
      fresh.push_back(r.defined ? make_tensor(std::move(buffers[next++]), r, call.device) : at::Tensor());
  });
  return_results(entry, stack, num_arguments, std::move(fresh));
}

}  // namespace torch_tpu::aten
