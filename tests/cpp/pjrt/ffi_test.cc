#include "pjrt/ffi.h"

#include "pjrt/error.h"
#include "pjrt/test_util.h"

namespace torch_tpu::pjrt {
namespace {

using namespace testing;

// The part of XLA's FFI that a handler without attributes and state sees.
struct ExtensionBase {
  size_t struct_size;
  int type;
  ExtensionBase* next;
};
struct Metadata {
  size_t struct_size;
  struct {
    size_t struct_size;
    ExtensionBase* extension_start;
    int major_version;
    int minor_version;
  } api_version;
  uint32_t traits;
};
struct MetadataExtension {
  ExtensionBase base;
  Metadata* metadata;
};
constexpr int kMetadataExtension = 1;
struct ArrayList {
  size_t struct_size;
  ExtensionBase* extension_start;
  int64_t size;
  int* types;
  void** values;
};
struct CallFrame {
  size_t struct_size;
  ExtensionBase* extension_start;
  const void* api;
  void* context;
  int stage;
  ArrayList args;
  ArrayList results;
};
struct Array {
  size_t struct_size;
  ExtensionBase* extension_start;
  int type;
  void* data;
  int64_t rank;
  int64_t* dims;
};

int calls = 0;

// Negates three floats.
void* negate(CallFrame* frame) {
  for (ExtensionBase* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != kMetadataExtension) continue;
    // Registration asks which FFI version the handler speaks.
    Metadata* metadata = reinterpret_cast<MetadataExtension*>(extension)->metadata;
    metadata->api_version.major_version = 0;
    metadata->api_version.minor_version = 1;
    metadata->traits = 0;
    return nullptr;
  }
  ++calls;
  const auto* in = static_cast<const float*>(static_cast<Array*>(frame->args.values[0])->data);
  auto* out = static_cast<float*>(static_cast<Array*>(frame->results.values[0])->data);
  for (int i = 0; i < 3; ++i) out[i] = -in[i];
  return nullptr;
}

TEST(Ffi, CustomCall) {
  ASSERT_TRUE(register_ffi_handler(cpu_client()->plugin(), "torch_tpu_test_negate", reinterpret_cast<void*>(&negate)));
  auto program = cpu_client()->compile(R"(
    module @call {
      func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.custom_call @torch_tpu_test_negate(%a) {api_version = 4 : i32, backend_config = {}}
            : (tensor<3xf32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    })",
                                       portable_options());
  const Buffer a = upload({1, 2, 3}, {3});
  EXPECT_EQ(download(run(*program, {a.get()})), (std::vector<float>{-1, -2, -3}));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace torch_tpu::pjrt
