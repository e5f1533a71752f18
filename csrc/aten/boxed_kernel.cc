// The one kernel behind all lowered ops: from a boxed call to a cached program and back.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include "aten/bridge.h"
#include "aten/device.h"
#include "aten/generator.h"
#include "aten/op_entry.h"
#include "aten/settings.h"
#include "runtime/executor.h"
#include "runtime/metrics.h"
#include "runtime/program_cache.h"

namespace torch_tpu::aten {
namespace {
using runtime::Call;
using runtime::CallDescription;
using runtime::ScalarDescription;
using runtime::ScalarValue;

// Tags keep neighbouring arguments of different kinds apart in the key.
enum Tag : uint64_t { kNone = 1, kScalarTag, kDefaultTag, kIntTag, kListTag, kStringTag, kTensorTag, kUndefinedTag };
inline uint64_t tagged(Tag tag, uint64_t value) { return static_cast<uint64_t>(tag) | value << 8; }

ScalarValue scalar_of(const c10::IValue& v) {
  ScalarValue s;
  if (v.isDouble()) {
    s.real = v.toDouble();
  } else if (v.isInt()) {
    s.kind = ElementType::kS64;
    s.integer = v.toInt();
  } else if (v.isBool()) {
    s.kind = ElementType::kPred;
    s.integer = v.toBool();
  } else {
    return aten::scalar_of(v.toScalar());
  }
  return s;
}

bool equals_default(const OpEntry::Argument& a, const ScalarValue& s) {
  return a.has_default && s.kind != ElementType::kC128 && s.as_double() == a.default_value;
}

// By position among the call's tensors: views whose offset does not fit the plain plan of their geometry. Empty for
// nearly all calls.
using Irregular = std::vector<bool>;
bool is_irregular(const Irregular& irregular, size_t i) { return i < irregular.size() && irregular[i]; }

// Fills a Call from the stack. Arguments are walked in schema order, so tensors and scalars get the same positions
// here and in describe().
class CallBuilder {
 public:
  CallBuilder(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, Call& call)
      : entry_(entry), arguments_(arguments), call_(call) {}

  void fill(const Irregular& irregular, const lowering::Numerics& numerics) {
    call_.tensors.clear();
    call_.scalars.clear();
    call_.key.clear();
    call_.key.push_back(entry_.id);
    call_.key.push_back(numerics_word(numerics));
    irregular_ = &irregular;
    device_ = -1;
    for (size_t i = 0; i < arguments_.size(); ++i) add(entry_.arguments[i], arguments_[i]);
    if (device_ < 0) device_ = explicit_device_ >= 0 ? explicit_device_ : current_device();
    call_.device = device_;
    if (!call_.random) call_.random = nullptr;
  }

 private:
  void add(const OpEntry::Argument& a, const c10::IValue& v) {
    runtime::KeyWords& key = call_.key;
    switch (a.kind) {
      case ArgumentKind::kTensor:
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        return add_tensor(v.toTensor());
      case ArgumentKind::kTensorList:
        return add_tensors(v);
      case ArgumentKind::kScalar: {
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        const ScalarValue s = scalar_of(v);
        if (equals_default(a, s)) return key.push_back(tagged(kDefaultTag, static_cast<uint64_t>(s.kind)));
        call_.scalars.push_back(s);
        return key.push_back(tagged(kScalarTag, static_cast<uint64_t>(s.kind)));
      }
      case ArgumentKind::kStructuralScalar: {
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        const ScalarValue s = scalar_of(v);
        key.push_back(tagged(kScalarTag, static_cast<uint64_t>(s.kind)));
        key.push_back(static_cast<uint64_t>(s.integer));
        key.push_back(bits(s.real));
        return key.push_back(bits(s.imag));
      }
      case ArgumentKind::kScalarList:
        return add_scalars(v);
      case ArgumentKind::kRuntimeInt:
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        call_.scalars.push_back(scalar_of(v));
        return key.push_back(tagged(kScalarTag, static_cast<uint64_t>(ElementType::kS64)));
      case ArgumentKind::kInt:
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        key.push_back(tagged(kIntTag, 0));
        return key.push_back(static_cast<uint64_t>(v.toInt()));
      case ArgumentKind::kBool:
        return key.push_back(v.isNone() ? tagged(kNone, 0) : tagged(kIntTag, v.toBool() ? 3 : 2));
      case ArgumentKind::kDtype:
        return key.push_back(v.isNone() ? tagged(kNone, 0) : tagged(kIntTag, static_cast<uint64_t>(v.toInt()) << 1));
      case ArgumentKind::kIntList:
        return add_ints(v);
      case ArgumentKind::kBoolList: {
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        const auto list = v.toBoolList();
        key.push_back(tagged(kListTag, list.size()));
        for (const bool b : list) key.push_back(b);
        return;
      }
      case ArgumentKind::kString: {
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        const std::string_view s = v.toStringView();
        key.push_back(tagged(kStringTag, s.size()));
        for (size_t i = 0; i < s.size(); i += 8) {
          uint64_t word = 0;
          std::memcpy(&word, s.data() + i, std::min<size_t>(8, s.size() - i));
          key.push_back(word);
        }
        return;
      }
      case ArgumentKind::kDevice:
        if (v.isDevice()) explicit_device_ = resolve_device(v.toDevice());
        return;
      case ArgumentKind::kGenerator:
        if (v.isGenerator()) call_.random = checked_generator(v.toGenerator());
        return;
      case ArgumentKind::kIgnored:
        // Memory formats and layouts change the strides of results: they are part of the key.
        return key.push_back(v.isNone()  ? tagged(kNone, 0)
                             : v.isInt() ? tagged(kIntTag, static_cast<uint64_t>(v.toInt()) << 1)
                                         : tagged(kIntTag, 1));
    }
  }

  static uint64_t bits(double d) {
    uint64_t u;
    std::memcpy(&u, &d, sizeof u);
    return u;
  }

  void add_tensor(const at::Tensor& t) {
    if (!t.defined()) return call_.key.push_back(tagged(kUndefinedTag, 0));
    const size_t index = call_.tensors.size();
    if (t.device().is_privateuseone()) {
      call_.tensors.push_back(tensor_ref(t));
      const int device = call_.tensors.back().storage->device;
      if (device_ < 0) {
        device_ = device;
      } else if (device != device_) {
        TORCH_CHECK(false,
                    "Expected all tensors to be on the same device, but found at least two devices, tpu:", device_,
                    " and tpu:", device, "! (", entry_.name, ")");
      }
    } else {
      TORCH_CHECK(t.device().is_cpu() && t.dim() == 0,
                  "Expected all tensors to be on the same device, but found at least two devices, tpu:",
                  device_ < 0 ? current_device() : device_, " and ", t.device(), "! (", entry_.name, ")");
      runtime::TensorRef ref;
      ref.type = checked_element_type(t.scalar_type());
      ref.wrapped_number = t.unsafeGetTensorImpl()->is_wrapped_number();
      ref.scalar = static_cast<int16_t>(call_.scalars.size());
      call_.scalars.push_back(aten::scalar_of(t));
      call_.tensors.push_back(ref);
    }
    append_tensor_key(call_, index, is_irregular(*irregular_, index));
  }

  void add_tensors(const c10::IValue& v) {
    if (v.isNone()) return call_.key.push_back(tagged(kNone, 0));
    if (v.isTensorList()) {
      const auto list = v.toTensorList();
      call_.key.push_back(tagged(kListTag, list.size()));
      for (const auto& element : list) add_tensor(static_cast<const at::Tensor&>(element));
      return;
    }
    const auto list = v.toList();
    call_.key.push_back(tagged(kListTag, list.size()));
    for (const c10::IValue& element : list) {
      if (element.isNone()) {
        call_.key.push_back(tagged(kNone, 0));
      } else {
        add_tensor(element.toTensor());
      }
    }
  }

  void add_scalars(const c10::IValue& v) {
    if (v.isNone()) return call_.key.push_back(tagged(kNone, 0));
    if (v.isDoubleList()) {
      const auto list = v.toDoubleList();
      call_.key.push_back(tagged(kListTag, list.size()));
      for (const double d : list) {
        ScalarValue s;
        s.real = d;
        call_.scalars.push_back(s);
      }
      return;
    }
    const auto list = v.toList();
    call_.key.push_back(tagged(kListTag, list.size()));
    for (const c10::IValue& element : list) {
      const ScalarValue s = scalar_of(element);
      call_.scalars.push_back(s);
      call_.key.push_back(tagged(kScalarTag, static_cast<uint64_t>(s.kind)));
    }
  }

  void add_ints(const c10::IValue& v) {
    if (v.isNone()) return call_.key.push_back(tagged(kNone, 0));
    if (v.isInt()) {
      call_.key.push_back(tagged(kListTag, 1));
      return call_.key.push_back(static_cast<uint64_t>(v.toInt()));
    }
    const auto list = v.toIntList();
    call_.key.push_back(tagged(kListTag, list.size()));
    for (const int64_t i : list) call_.key.push_back(static_cast<uint64_t>(i));
  }

  const OpEntry& entry_;
  at::ArrayRef<c10::IValue> arguments_;
  Call& call_;
  const Irregular* irregular_ = nullptr;
  int device_ = -1, explicit_device_ = -1;
};

// The slow half: everything that building a program needs to know, from the same arguments.
class Describer {
 public:
  Describer(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, const Call& call)
      : entry_(entry), arguments_(arguments), call_(call) {}

  CallDescription describe(const Irregular& irregular) {
    description_.op = entry_.name;
    description_.lowering = entry_.lowering;
    for (size_t i = 0; i < call_.tensors.size(); ++i) description_.irregular.push_back(is_irregular(irregular, i));
    std::vector<std::pair<int, std::vector<int>>> written;  // result index -> tensors
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const OpEntry::Argument& a = entry_.arguments[i];
      runtime::ArgumentDescription d;
      d.name = a.name;
      std::vector<int> tensors = add(a, arguments_[i], d);
      if (a.returned_as >= 0) written.emplace_back(a.returned_as, std::move(tensors));
      if (!a.is_out) description_.arguments.push_back(std::move(d));
    }
    infer(written);
    return std::move(description_);
  }

 private:
  ScalarDescription scalar(const ScalarValue& s, bool constant) {
    ScalarDescription d;
    d.value = s;
    d.constant = constant;
    if (!constant) d.index = next_scalar_++;
    return d;
  }

  int next_tensor(const at::Tensor& t) {
    if (!t.defined()) return -1;
    if (!t.device().is_privateuseone()) ++next_scalar_;
    return next_tensor_++;
  }

  std::vector<int> add(const OpEntry::Argument& a, const c10::IValue& v, runtime::ArgumentDescription& d) {
    if (a.kind == ArgumentKind::kDevice || a.kind == ArgumentKind::kGenerator || a.kind == ArgumentKind::kIgnored)
      return {};
    if (v.isNone()) return {};
    switch (a.kind) {
      case ArgumentKind::kTensor: {
        const int index = next_tensor(v.toTensor());
        if (index < 0) return {};
        d.value = runtime::TensorIndex{index};
        return {index};
      }
      case ArgumentKind::kTensorList: {
        std::vector<int> list;
        for (const c10::IValue& element : v.toList())
          list.push_back(element.isNone() ? -1 : next_tensor(element.toTensor()));
        d.value = list;
        return list;
      }
      case ArgumentKind::kScalar: {
        const ScalarValue s = scalar_of(v);
        d.value = scalar(s, equals_default(a, s));
        break;
      }
      case ArgumentKind::kStructuralScalar:
        d.value = scalar(scalar_of(v), true);
        break;
      case ArgumentKind::kRuntimeInt:
        d.value = scalar(scalar_of(v), false);
        break;
      case ArgumentKind::kScalarList: {
        std::vector<ScalarDescription> list;
        for (const c10::IValue& element : v.toList()) list.push_back(scalar(scalar_of(element), false));
        d.value = list;
        break;
      }
      case ArgumentKind::kInt:
        d.value = v.toInt();
        break;
      case ArgumentKind::kBool:
        d.value = v.toBool();
        break;
      case ArgumentKind::kIntList:
        d.value = v.isInt() ? std::vector<int64_t>{v.toInt()} : v.toIntVector();
        break;
      case ArgumentKind::kBoolList: {
        std::vector<bool> list;
        for (const bool b : v.toBoolList()) list.push_back(b);
        d.value = list;
        break;
      }
      case ArgumentKind::kString:
        d.value = std::string(v.toStringView());
        break;
      case ArgumentKind::kDtype:
        d.value = checked_element_type(static_cast<c10::ScalarType>(v.toInt()));
        break;
      default:
        break;
    }
    return {};
  }

  void infer(const std::vector<std::pair<int, std::vector<int>>>& written) {
    if (entry_.writes_results) {
      // The written form's meta kernel raises CPU's errors (shape of out, casts); the functional one's result types are
      // what the lowering computes in.
      if (entry_.own && !entry_.is_foreach) infer_results(*entry_.own, arguments_);
      if (entry_.functional && entry_.functional != entry_.own && !entry_.is_foreach)
        set_lowering_types(infer_results(*entry_.functional, functional_arguments()));
      for (const auto& [result, tensors] : written) {
        for (size_t k = 0; k < tensors.size(); ++k) {
          const size_t index = static_cast<size_t>(result) + k;
          if (description_.results.size() <= index) description_.results.resize(index + 1);
          description_.results[index].written_tensor = tensors[k];
          const runtime::TensorRef& t = call_.tensors[static_cast<size_t>(tensors[k])];
          if (description_.lowering_types.size() <= index) description_.lowering_types.resize(index + 1);
          if (description_.lowering_types[index].element == ElementType::kInvalid && !entry_.is_foreach &&
              entry_.functional == entry_.own)
            description_.lowering_types[index] = {t.type, {t.sizes, t.sizes + t.rank}};
        }
      }
      return;
    }
    if (!entry_.own || entry_.is_foreach) return;
    const std::vector<MetaResult> results = infer_results(*entry_.own, arguments_);
    set_lowering_types(results);
    for (const MetaResult& r : results) {
      runtime::ResultDescription d;
      if (r.known && r.defined) {
        d.type = {checked_element_type(r.dtype), r.sizes};
        d.strides = r.strides;
      }
      description_.results.push_back(std::move(d));
    }
  }

  void set_lowering_types(const std::vector<MetaResult>& results) {
    for (const MetaResult& r : results)
      description_.lowering_types.push_back(r.known && r.defined
                                                ? stablehlo::TensorType{checked_element_type(r.dtype), r.sizes}
                                                : stablehlo::TensorType{});
  }

  std::vector<c10::IValue> functional_arguments() const {
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < arguments_.size(); ++i)
      if (!entry_.arguments[i].is_out) values.push_back(arguments_[i]);
    return values;
  }

  const OpEntry& entry_;
  at::ArrayRef<c10::IValue> arguments_;
  const Call& call_;
  CallDescription description_;
  int next_scalar_ = 0, next_tensor_ = 0;
};

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
                    const runtime::Program& program, std::vector<at::Tensor> fresh) {
  const size_t first = stack->size() - num_arguments;
  (void)program;
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
  CallBuilder builder(entry, arguments, call);
  Irregular irregular;
  builder.fill(irregular, numerics);
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
            builder.fill(irregular, numerics);
            continue;
          }
        }
        CallDescription description = Describer(entry, arguments, call).describe(irregular);
        description.numerics = numerics;
        program = runtime::build_program(call, description, hash);
      }
      starts.resize(static_cast<size_t>(program->num_starts));
      if (program->compute_starts(call, starts.data(), &irregular)) break;
      builder.fill(irregular, numerics);
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
  return_results(entry, stack, num_arguments, *program, std::move(fresh));
}

}  // namespace torch_tpu::aten
