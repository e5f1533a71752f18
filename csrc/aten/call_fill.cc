#include "aten/bridge.h"
#include "aten/call_reader.h"
#include "aten/device.h"
#include "aten/generator.h"
#include "aten/settings.h"

namespace torch_tpu::aten {
using runtime::Call;
using runtime::ScalarValue;

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

namespace {

// Tags keep neighbouring arguments of different kinds apart in the key.
enum Tag : uint64_t { kNone = 1, kScalarTag, kDefaultTag, kIntTag, kListTag, kStringTag, kTensorTag, kUndefinedTag };
inline uint64_t tagged(Tag tag, uint64_t value) { return static_cast<uint64_t>(tag) | value << 8; }

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
        return add_constant(scalar_of(v));
      }
      case ArgumentKind::kStructuralScalarList: {
        if (v.isNone()) return key.push_back(tagged(kNone, 0));
        const auto list = v.toList();
        key.push_back(tagged(kListTag, list.size()));
        for (const c10::IValue& element : list) add_constant(scalar_of(element));
        return;
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

  void add_constant(const ScalarValue& s) {
    call_.key.push_back(tagged(kScalarTag, static_cast<uint64_t>(s.kind)));
    call_.key.push_back(static_cast<uint64_t>(s.integer));
    call_.key.push_back(bits(s.real));
    call_.key.push_back(bits(s.imag));
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

}  // namespace

void fill_call(const OpEntry& entry, at::ArrayRef<c10::IValue> arguments, const Irregular& irregular,
               const lowering::Numerics& numerics, Call& call) {
  CallBuilder(entry, arguments, call).fill(irregular, numerics);
}

}  // namespace torch_tpu::aten
