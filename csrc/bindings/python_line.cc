#include "bindings/python_line.h"

#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include <internal/pycore_frame.h>
#define TORCH_TPU_HAS_PYTHON_LINES 1
#endif
#undef Py_BUILD_CORE

#include <cxxabi.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <typeinfo>
#include <unordered_map>

#include "runtime/source_line.h"

namespace torch_tpu {
namespace {
using runtime::SourceLine;

// SourceLine::detail of a place that is the type of an autograd node.
constexpr int32_t kNode = -1;

#ifdef TORCH_TPU_HAS_PYTHON_LINES

// Ops are called without the interpreter's lock, and taking it would cost more than recording. So frames are read as
// they lie in memory: the thread's own, which stand still while it is here. Their code objects must not go: each one
// met gets a reference that is never given back. That is one for each function that calls ops, and no more than
// kMaxCodes.
constexpr size_t kMaxCodes = 1 << 16;

struct Code {
  PyCodeObject* object;
  std::string file, function;
  bool is_internal;
};

class Codes {
 public:
  const Code* find(PyCodeObject* object) {
    const size_t slot = (reinterpret_cast<uintptr_t>(object) >> 5) % kSlots;
    thread_local std::array<std::pair<PyCodeObject*, const Code*>, kSlots> recent{};
    auto& [known, code] = recent[slot];
    if (known != object) {
      const Code* found = find_or_add(object);
      if (!found) return nullptr;
      known = object;
      code = found;
    }
    return code;
  }

  std::vector<std::string> folders;

 private:
  static constexpr size_t kSlots = 128;

  const Code* find_or_add(PyCodeObject* object) {
    {
      std::lock_guard lock(mutex_);
      if (const auto it = codes_.find(object); it != codes_.end()) return it->second.get();
      if (codes_.size() >= kMaxCodes) return nullptr;
    }
    if (_Py_IsFinalizing()) return nullptr;
    // Not under the mutex: who has the interpreter's lock may be waiting for it.
    const PyGILState_STATE state = PyGILState_Ensure();
    auto code = std::make_unique<Code>(Code{object, text(object->co_filename), text(object->co_qualname), false});
    for (const std::string& folder : folders) code->is_internal |= code->file.starts_with(folder);
    Py_INCREF(object);
    PyGILState_Release(state);
    std::lock_guard lock(mutex_);
    // Where another thread was faster, the second reference stays: code objects are pinned in any case.
    return codes_.emplace(object, std::move(code)).first->second.get();
  }

  static std::string text(PyObject* unicode) {
    const char* utf8 = PyUnicode_AsUTF8(unicode);
    if (!utf8) PyErr_Clear();
    return utf8 ? utf8 : "?";
  }

  std::mutex mutex_;
  std::unordered_map<PyCodeObject*, std::unique_ptr<Code>> codes_;
};

Codes& codes() {
  static Codes* const instance = new Codes;  // used until the process ends
  return *instance;
}

SourceLine current_line() {
  if (const PyThreadState* thread = PyGILState_GetThisThreadState()) {
    for (const _PyInterpreterFrame* f = thread->cframe->current_frame; f; f = f->previous) {
      const Code* code = codes().find(f->f_code);
      if (code && !code->is_internal) return {code, _PyInterpreterFrame_LASTI(f)};
    }
  }
  // Autograd's threads run no Python: the op of the forward pass is what can be named.
  if (const auto node = torch::autograd::get_current_node()) return {typeid(*node).name(), kNode};
  return {};
}

#endif

std::string describe_node(const char* type) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type, nullptr, nullptr, &status), &std::free);
  std::string text = name ? name.get() : type;
  if (const size_t colon = text.rfind(':'); colon != std::string::npos) text.erase(0, colon + 1);
  return " (in the backward pass: " + text + ")";
}

}  // namespace

bool record_python_lines(std::vector<std::string> folders) {
#ifdef TORCH_TPU_HAS_PYTHON_LINES
  codes().folders = std::move(folders);
  runtime::set_source_line_functions(
      {&current_line, [](SourceLine line) {
         if (line.detail == kNode) return describe_node(static_cast<const char*>(line.place));
         const Code& code = *static_cast<const Code*>(line.place);
         // A table look-up in an object that nothing changes: needs no lock.
         const int number = PyCode_Addr2Line(code.object, line.detail * static_cast<int>(sizeof(_Py_CODEUNIT)));
         return " (" + code.file + ":" + std::to_string(number) + ", in " + code.function + ")";
       }});
  return true;
#else
  (void)folders;
  return false;
#endif
}

}  // namespace torch_tpu
