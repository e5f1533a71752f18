#include "runtime/lower.h"

#include <algorithm>
#include <map>

#include "runtime/element_values.h"
#include "runtime/strides.h"

namespace torch_tpu::runtime {
namespace {
using namespace stablehlo;
using lowering::Argument;
using lowering::ScalarArgument;
using lowering::TensorArgument;

// Emits one call: hands arguments to the lowering, collects what it reads, and wires results to outputs.
class CallEmitter final : public lowering::ProgramContext {
 public:
  CallEmitter(const Recipe& recipe, const lowering::Target& chosen, Builder& module, Environment& environment,
              Program& program)
      : call_(recipe.call()),
        description_(recipe.description()),
        program_(program),
        module_(module),
        environment_(environment),
        plans_(call_.tensors.size()) {
    builder = &module_;
    target = chosen;
    numerics = description_.numerics;
  }

  EmittedCall emit() {
    std::map<std::string, Argument, std::less<>> arguments;
    for (const ArgumentDescription& a : description_.arguments) arguments.emplace(a.name, argument(a));
    std::vector<TensorType> types = description_.lowering_types;
    for (TensorType& t : types) t.element = value_type(t.element);
    lowering::Op op(*this, description_.lowering->name, std::move(arguments), std::move(types));
    lowering::Results values = description_.lowering->run(op);
    place_results(values);
    for (const lowering::Op::Write& w : op.writes()) write(written_tensor(w), w.value);
    program_.op = description_.op;
    program_.allow_excess_precision = description_.numerics.allow_excess_precision;
    program_.has_bounds_flag = fault_.defined();
    for (const auto& [slot, value] : written_) {
      program_.writes.push_back({slot});
      emitted_.writes.emplace_back(slot, value);
    }
    emitted_.fault = fault_;
    return std::move(emitted_);
  }

  Value random_state(int64_t blocks) override {
    const Value key = packed({PackedValue::Source::kRandomKey, ElementType::kU64, 0, 0, 0});
    const Value counter =
        packed({PackedValue::Source::kRandomCounter, ElementType::kU64, 0, program_.random_blocks, 0});
    program_.random_blocks += blocks;
    const Value parts[2] = {reshape(key, {1}), reshape(counter, {1})};
    return concatenate(parts, 0);
  }

  // All faults of a program are one byte: 0, or the greatest fault's number.
  void report(lowering::Fault fault, Value flag) override {
    Value code = select(flag, constant(module_, ElementType::kU8, static_cast<int64_t>(fault)),
                        constant(module_, ElementType::kU8, 0));
    fault_ = fault_.defined() ? maximum(fault_, code) : code;
  }

 private:
  const TensorRef& tensor(int i) const { return call_.tensors[static_cast<size_t>(i)]; }

  // The first tensor argument on the same storage.
  int slot_of(int i) const {
    for (int k = 0; k < i; ++k)
      if (tensor(k).storage == tensor(i).storage) return k;
    return i;
  }

  // --- runtime values

  // One of the packed runtime values, as rank 0.
  Value packed(PackedValue value) {
    for (const auto& [known, result] : packed_reads_)
      if (known.source == value.source && known.as == value.as && known.index == value.index &&
          known.detail == value.detail)
        return result;
    const int words = static_cast<int>(byte_size(value.as) + 3) / 4;
    value.word = program_.packed_words;
    program_.packed_words += words;
    program_.packed.push_back(value);
    Value result = unpack(environment_.words(value.word, words), value.as);
    packed_reads_.emplace_back(value, result);
    return result;
  }

  Value unpack(Value raw, ElementType as) {
    if (is_complex(as)) {
      const int64_t half = raw.dim(0) / 2;
      return complex(unpack(slice(raw, {0}, {half}), real_type(as)),
                     unpack(slice(raw, {half}, {2 * half}), real_type(as)));
    }
    if (raw.dim(0) == 1) {
      Value word = reshape(raw, {});
      return as == ElementType::kU32 ? word : bitcast_convert(word, as);
    }
    if (target.is_cpu()) return reshape(bitcast_convert(reshape(raw, {1, 2}), as), {});
    // TPUs have no 64-bit bitcast: integers are put together by shifts, doubles come as a high and a low float.
    Value low = reshape(slice(raw, {0}, {1}), {}), high = reshape(slice(raw, {1}, {2}), {});
    if (as == ElementType::kF64)
      return add(convert(bitcast_convert(low, ElementType::kF32), as),
                 convert(bitcast_convert(high, ElementType::kF32), as));
    Value wide = logical_or(shift_left(convert(high, ElementType::kU64), constant(module_, ElementType::kU64, 32)),
                            convert(low, ElementType::kU64));
    return convert(wide, as);
  }

  // The types that travel: others are converted from the next wider one.
  Value runtime_scalar(int index, ElementType as) {
    using enum ElementType;
    const ElementType kind = call_.scalars[static_cast<size_t>(index)].kind;
    const bool integral = kind == kPred || kind == kS64;
    ElementType carrier = as;
    if (is_bool(as)) carrier = integral ? kS64 : kind;
    if (is_reduced_float(as)) carrier = kF32;
    if (is_integer(as)) carrier = kS64;
    if (kind == kC128 && !is_complex(as)) carrier = is_bool(as) ? kC128 : carrier;
    return convert(packed({PackedValue::Source::kScalar, carrier, index, 0, 0}), as);
  }

  std::vector<Value> starts_of(int i) {
    const AccessPlan& plan = plan_of(i);
    std::vector<Value> values;
    if (plan.num_starts() == 0) return values;
    auto known = std::find_if(program_.starts.begin(), program_.starts.end(),
                              [&](const Program::Starts& s) { return s.tensor == i; });
    if (known == program_.starts.end()) {
      known = program_.starts.insert(known, {i, program_.num_starts, plan});
      program_.num_starts += static_cast<int>(plan.num_starts());
    }
    const bool wide = tensor(i).storage->nbytes > (int64_t{1} << 31) - 1;
    for (size_t k = 0; k < plan.num_starts(); ++k)
      values.push_back(packed({PackedValue::Source::kStart, wide ? ElementType::kS64 : ElementType::kS32, i,
                               known->first + static_cast<int64_t>(k), 0}));
    return values;
  }

  const AccessPlan& plan_of(int i) {
    auto& plan = plans_[static_cast<size_t>(i)];
    if (!plan) {
      const TensorRef& t = tensor(i);
      ViewGeometry g{
          {t.storage->element, t.storage->dims}, t.type, {t.sizes, t.sizes + t.rank}, {t.strides, t.strides + t.rank}};
      plan = AccessPlan::make(g, description_.irregular.at(static_cast<size_t>(i)));
    }
    return *plan;
  }

  // --- tensors

  Value base_parameter(int slot) {
    if (auto it = bases_.find(slot); it != bases_.end()) return it->second;
    const Storage& s = *tensor(slot).storage;
    Value base = environment_.array(static_cast<int>(program_.inputs.size()), {s.element, s.dims});
    program_.inputs.push_back({slot, -1, -1, s.element, s.dims});
    bases_.emplace(slot, base);
    return base;
  }

  // Between what memory holds and what the tensor means; both ways.
  static Value with_lazy_bits(const TensorRef& t, Value value) {
    if (t.conjugated) value = complex(real(value), negate(imag(value)));
    return t.negated ? negate(value) : value;
  }

  Value read(int i) {
    if (auto it = reads_.find(i); it != reads_.end()) return it->second;
    const AccessPlan& plan = plan_of(i);
    const TensorRef& t = tensor(i);
    Value value = plan.form() == AccessPlan::Form::kEmpty
                      ? constant(module_, value_type(t.type), 0, Dims(t.sizes, t.sizes + t.rank))
                      : with_lazy_bits(t, to_values(plan.emit_read(base_parameter(slot_of(i)), starts_of(i))));
    reads_.emplace(i, value);
    return value;
  }

  void write(int i, Value value) {
    const TensorRef& t = tensor(i);
    const AccessPlan& plan = plan_of(i);
    if (plan.form() == AccessPlan::Form::kEmpty) return;
    const Dims sizes(t.sizes, t.sizes + t.rank);
    if (value.dims() != sizes) value = broadcast_to(value, sizes);
    value = to_elements(with_lazy_bits(t, convert(value, value_type(t.type))), t.type);
    const int slot = slot_of(i);
    auto written = written_.find(slot);
    Value base = written != written_.end() ? written->second : plan.covers() ? Value() : base_parameter(slot);
    written_[slot] = plan.emit_write(base, value, starts_of(i), module_);
  }

  TensorArgument tensor_argument(int i) {
    const TensorRef& t = tensor(i);
    TensorArgument a;
    a.type = {value_type(t.type), {t.sizes, t.sizes + t.rank}};
    a.wrapped_number = t.wrapped_number;
    a.contiguous = t.contiguous;
    if (t.storage) {
      a.load = [this, i] { return read(i); };
    } else {
      a.load_as = [this, index = t.scalar](ElementType as) { return runtime_scalar(index, as); };
    }
    return a;
  }

  ScalarArgument scalar_argument(const ScalarDescription& d) {
    ScalarArgument s;
    s.kind = d.value.kind;
    s.is_constant = d.constant;
    if (d.constant) {
      s.constant = {d.value.as_double(), d.value.imag};
      s.integer_constant = d.value.as_integer();
    } else {
      s.load = [this, index = d.index](ElementType as) { return runtime_scalar(index, as); };
    }
    return s;
  }

  Argument argument(const ArgumentDescription& d) {
    return std::visit(
        [&](const auto& v) -> Argument {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, TensorIndex>) {
            return {tensor_argument(v.index)};
          } else if constexpr (std::is_same_v<T, std::vector<int>>) {
            lowering::TensorListArgument list;
            for (int i : v) list.push_back(i < 0 ? std::nullopt : std::optional(tensor_argument(i)));
            return {std::move(list)};
          } else if constexpr (std::is_same_v<T, ScalarDescription>) {
            return {scalar_argument(v)};
          } else if constexpr (std::is_same_v<T, std::vector<ScalarDescription>>) {
            std::vector<ScalarArgument> list;
            for (const auto& s : v) list.push_back(scalar_argument(s));
            return {std::move(list)};
          } else if constexpr (std::is_same_v<T, ElementType>) {
            return {value_type(v)};
          } else {
            return {v};
          }
        },
        d.value);
  }

  int written_tensor(const lowering::Op::Write& w) const {
    for (const ArgumentDescription& a : description_.arguments) {
      if (a.name != w.argument) continue;
      if (const auto* t = std::get_if<TensorIndex>(&a.value)) return t->index;
      if (const auto* list = std::get_if<std::vector<int>>(&a.value)) return list->at(static_cast<size_t>(w.index));
    }
    throw TypeError(description_.op + ": write to " + w.argument + ", which is no tensor argument");
  }

  // --- results

  // What an in-place foreach op computes in must fit its tensors, as ATen has it: there is no meta kernel that says so.
  void check_cast(ElementType from, int written) const {
    const ElementType to = tensor(written).type;
    const auto rank = [](ElementType t) {
      return is_complex(t) || t == ElementType::kC32 ? 3 : is_floating(t) ? 2 : t == ElementType::kPred ? 0 : 1;
    };
    if (description_.op.find("_foreach_") != std::string::npos && rank(from) > rank(to))
      throw lowering::CallError("result type " + stablehlo::to_string({from, {}}) +
                                " can't be cast to the desired output type " + stablehlo::to_string({to, {}}));
  }

  void place_results(const lowering::Results& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      ResultDescription d = i < description_.results.size() ? description_.results[i] : ResultDescription{};
      if (d.written_tensor >= 0) {
        if (values[i].defined()) check_cast(values[i].element(), d.written_tensor);
        if (values[i].defined() && values[i].numel() > 0) write(d.written_tensor, values[i]);
        continue;
      }
      Program::Result r;
      if (!values[i].defined()) {
        r.defined = false;
        program_.results.push_back(r);
        continue;
      }
      Value v = values[i];
      if (d.type.element != ElementType::kInvalid) {
        if (description_.lowering->has_own_results) {
          if (v.dims() != d.type.dims || !description_.lowering->image_format_of.empty())
            d.strides = strides_like(v.dims());
          d.type = {d.type.element == ElementType::kC32 ? d.type.element : v.element(), v.dims()};
        }
        if (v.dims() != d.type.dims)
          throw TypeError(description_.op + ": the lowering's result " + std::to_string(i) + " is " +
                          stablehlo::to_string(v.type()) + ", expected " + stablehlo::to_string(d.type));
        v = to_elements(v, d.type.element);
      } else {
        if (v.element() == ElementType::kC64 && is_half_complex()) v = to_elements(v, ElementType::kC32);
        d.strides = strides_like(v.dims());
      }
      const auto& column_major = description_.lowering->column_major_results;
      if (std::find(column_major.begin(), column_major.end(), i) != column_major.end())
        d.strides = column_major_strides(v.dims());
      r.element = v.element();
      r.sizes = v.dims();
      r.nbytes = v.numel() * static_cast<int64_t>(byte_size(v.element()));
      const Dims order = stride_order(r.sizes, d.strides);
      v = transpose(v, order);
      r.dims = v.dims();
      r.strides.assign(r.sizes.size(), 1);
      int64_t stride = 1;
      bool as_asked = d.strides.size() == r.sizes.size();
      for (size_t k = order.size(); k-- > 0;) {
        const auto i = static_cast<size_t>(order[k]);
        r.strides[i] = stride;
        as_asked = as_asked && (r.dims[k] <= 1 || d.strides[i] == stride);
        stride *= std::max<int64_t>(r.dims[k], 1);
      }
      if (as_asked) r.strides = d.strides;  // strides of dims of size one are free, and PyTorch's choice shows
      program_.results.push_back(r);
      emitted_.results.push_back(v);
    }
  }

  // Whether the call's complex tensors are all complex32.
  bool is_half_complex() const {
    bool half = false;
    for (const TensorRef& t : call_.tensors) {
      if (is_complex(t.type)) return false;
      half = half || t.type == ElementType::kC32;
    }
    return half;
  }

  // For results without a meta kernel: the dense strides of the argument that the registry names.
  Dims strides_like(const Dims& dims) const {
    const lowering::Lowering& lowering = *description_.lowering;
    for (const ArgumentDescription& a : description_.arguments) {
      const auto* t = std::get_if<TensorIndex>(&a.value);
      if (!t) continue;
      const TensorRef& ref = tensor(t->index);
      if (!ref.storage) continue;
      if (a.name == lowering.strides_of && Dims(ref.sizes, ref.sizes + ref.rank) == dims)
        return {ref.strides, ref.strides + ref.rank};
      const auto& images = lowering.image_format_of;
      if (std::find(images.begin(), images.end(), a.name) != images.end() &&
          static_cast<size_t>(ref.rank) == dims.size() && is_channels_last(ref))
        return channels_last_strides(dims);
    }
    return {};
  }

  const Call& call_;
  const CallDescription& description_;
  Program& program_;
  Builder& module_;
  Environment& environment_;
  Value fault_;
  std::vector<std::pair<PackedValue, Value>> packed_reads_;
  std::vector<std::optional<AccessPlan>> plans_;
  std::map<int, Value> bases_, reads_, written_;
  EmittedCall emitted_;
};

// A program of its own: arrays are parameters, and so are the runtime values. Their number is known only at the end:
// until then the parameter's type has a length that no real array has, which finish() replaces in the text.
class ParameterEnvironment final : public Environment {
 public:
  explicit ParameterEnvironment(Builder& module) : module_(module) {}

  Value array(int index, const TensorType& type) override {
    if (static_cast<size_t>(index) >= parameters.size()) parameters.resize(static_cast<size_t>(index) + 1, -1);
    parameters[static_cast<size_t>(index)] = module_.num_parameters();
    return module_.parameter(type);
  }
  Value words(int first, int count) override {
    if (!packed_.defined()) {
      packed_parameter = module_.num_parameters();
      packed_ = module_.parameter({ElementType::kU32, {kPlaceholder}});
    }
    return slice(packed_, {first}, {first + count});
  }
  std::string finish(std::span<const Value> outputs, int packed_words) {
    std::string text = module_.finish(outputs);
    const std::string placeholder = stablehlo::to_string(TensorType{ElementType::kU32, {kPlaceholder}});
    const std::string actual = stablehlo::to_string(TensorType{ElementType::kU32, {packed_words}});
    for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder, at))
      text.replace(at, placeholder.size(), actual);
    return text;
  }

  std::vector<int> parameters;  // by input
  int packed_parameter = -1;

 private:
  static constexpr int64_t kPlaceholder = 777777777777777777;
  Builder& module_;
  Value packed_;
};

}  // namespace

Recipe::Recipe(const Call& call, CallDescription description) : description_(std::move(description)) {
  std::map<const Storage*, Storage*> copies;
  for (TensorRef t : call.tensors) {
    if (t.storage) {
      Storage*& copy = copies[t.storage];
      if (!copy) {
        copy = &storages_.emplace_back();
        copy->element = t.storage->element;
        copy->dims = t.storage->dims;
        copy->nbytes = t.storage->nbytes;
      }
      t.storage = copy;
      t.sizes = geometry_.emplace_back(t.sizes, t.sizes + t.rank).data();
      t.strides = geometry_.emplace_back(t.strides, t.strides + t.rank).data();
    }
    call_.tensors.push_back(t);
  }
  call_.scalars = call.scalars;
}

EmittedCall emit_call(const Recipe& recipe, const lowering::Target& target, Builder& module, Environment& environment,
                      Program& program) {
  module.set_reduce_in_steps(target.is_cpu());
  return CallEmitter(recipe, target, module, environment, program).emit();
}

std::string lower(const Recipe& recipe, const lowering::Target& target, Program& program) {
  Builder module;
  ParameterEnvironment environment(module);
  EmittedCall emitted = emit_call(recipe, target, module, environment, program);
  for (size_t i = 0; i < program.inputs.size(); ++i) program.inputs[i].parameter = environment.parameters[i];
  program.packed_parameter = environment.packed_parameter;
  std::vector<Value> outputs = std::move(emitted.results);
  for (const auto& [slot, value] : emitted.writes) {
    for (Program::Input& in : program.inputs) {
      if (in.tensor != slot) continue;
      in.output = static_cast<int>(outputs.size());
      module.alias_parameter(in.parameter, in.output);
    }
    outputs.push_back(value);
  }
  if (emitted.fault.defined()) outputs.push_back(emitted.fault);
  program.num_outputs = static_cast<int>(outputs.size());
  program.num_parameters = module.num_parameters();
  return environment.finish(outputs, program.packed_words);
}

}  // namespace torch_tpu::runtime
