// Cache misses only.
#include "aten/bridge.h"
#include "aten/call_reader.h"
#include "aten/input_checks.h"

namespace torch_tpu::aten {
namespace {
using runtime::Call;
using runtime::CallDescription;
using runtime::ScalarDescription;
using runtime::ScalarValue;

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
      case ArgumentKind::kScalarList:
      case ArgumentKind::kStructuralScalarList: {
        const bool constant = a.kind == ArgumentKind::kStructuralScalarList;
        std::vector<ScalarDescription> list;
        for (const c10::IValue& element : v.toList()) list.push_back(scalar(scalar_of(element), constant));
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
      // The functional form's result types are what the lowering computes in; the written form's meta kernel raises
      // CPU's errors (shape of out, casts).
      if (entry_.functional && entry_.functional != entry_.own && !entry_.is_foreach) {
        const std::vector<MetaResult> results = infer_results(*entry_.functional, functional_arguments());
        check_written(entry_, arguments_, results);
        set_lowering_types(results);
      }
      if (entry_.own && !entry_.is_foreach) infer_results(*entry_.own, arguments_);
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

}  // namespace

CallDescription describe_call(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, const Call& call,
                              const Irregular& irregular) {
  return Describer(entry, arguments, call).describe(irregular);
}

}  // namespace torch_tpu::aten
