#include "aten/hooks.h"

#include <ATen/ATen.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/alloc_cpu.h>

#include <map>
#include <mutex>

#include "aten/allocator.h"
#include "aten/bridge.h"
#include "aten/device.h"
#include "aten/generator.h"
#include "runtime/session.h"

namespace torch_tpu::aten {
namespace {

// Page-locked memory means nothing to PJRT's CPU plugins, and libtpu pins on its own: "pinned" memory is ordinary host
// memory of an allocator that remembers its blocks, so that is_pinned() answers truthfully.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    void* data = n ? c10::alloc_cpu(n) : nullptr;
    if (data) {
      std::lock_guard lock(mutex_);
      blocks_[data] = n;
    }
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dest, const void* src, std::size_t n) const override { default_copy_data(dest, src, n); }
  bool contains(const void* p) {
    std::lock_guard lock(mutex_);
    auto it = blocks_.upper_bound(p);
    if (it == blocks_.begin()) return false;
    --it;
    return p < static_cast<const char*>(it->first) + it->second;
  }

  static PinnedAllocator& instance() {
    static auto* const allocator = new PinnedAllocator;
    return *allocator;
  }

 private:
  static void free_block(void* data) {
    if (!data) return;
    {
      std::lock_guard lock(instance().mutex_);
      instance().blocks_.erase(data);
    }
    c10::free_cpu(data);
  }
  std::mutex mutex_;
  std::map<const void*, size_t> blocks_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return runtime::Session::started(); }
  void init() const override {
    translate_errors([] { runtime::Session::get(); });
  }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  void setCurrentDevice(c10::DeviceIndex d) const override { set_device(d); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override {
    const int old = current_device();
    set_device(d);
    return static_cast<c10::DeviceIndex>(old);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override {
    return d < 0 ? getCurrentDevice() : exchangeDevice(d);
  }
  bool isPinnedPtr(const void* data) const override { return PinnedAllocator::instance().contains(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedAllocator::instance(); }
  c10::Device getDeviceFromPtr(void* data) const override {
    int64_t offset = 0;
    const runtime::Storage* storage = find_storage(data, &offset);
    TORCH_CHECK(storage, "the pointer is of no tensor on the tpu device");
    return c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(storage->device));
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex d) const override { return default_generator(d); }
  at::Generator getNewGenerator(c10::DeviceIndex d) const override {
    return at::make_generator<Generator>(d < 0 ? current_device() : d);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override;
};

// Grows or shrinks a storage in bytes; the common prefix keeps its contents.
void Hooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const {
  auto* impl = storage.unsafeGetStorageImpl();
  TORCH_CHECK(is_own(impl->data_ptr()), "Trying to resize storage that is not resizable");
  auto* old = static_cast<runtime::Storage*>(impl->data_ptr().get_context());
  if (static_cast<size_t>(impl->nbytes()) == size) return;
  check_size(static_cast<int64_t>(size), old->device);
  auto* fresh = new runtime::Storage;
  fresh->device = old->device;
  fresh->nbytes = static_cast<int64_t>(size);
  const bool had_contents = static_cast<bool>(old->buffer);
  // As flat bytes; the next tensor made on it gives it a type again.
  at::Tensor before;
  const auto kept = static_cast<int64_t>(std::min(static_cast<size_t>(old->nbytes), size));
  c10::Storage source;
  if (had_contents && kept > 0) {
    auto* copy = new runtime::Storage(*old);
    source = c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), old->nbytes,
                                                                adopt(copy), &allocator(), true));
    // Ends that cut an element keep its first bytes: the array becomes bytes.
    const bool whole = kept % static_cast<int64_t>(byte_size(copy->element)) == 0;
    const ElementType element = whole ? copy->element : ElementType::kU8;
    const auto item = static_cast<int64_t>(byte_size(element));
    const auto options = at::TensorOptions().device(storage.device()).dtype(to_scalar_type(element));
    before = at::empty({0}, options).set_(source, 0, {kept / item}, {1});
    fresh->element = element;
    fresh->dims = {(static_cast<int64_t>(size) + item - 1) / item};
    fresh->nbytes = fresh->dims[0] * item;
  }
  impl->set_data_ptr_noswap(adopt(fresh));
  impl->set_nbytes(size);
  if (before.defined()) at::empty({0}, before.options()).set_(storage, 0, before.sizes(), {1}).copy_(before);
}

}  // namespace

void register_hooks() {
  static const bool once = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
  }();
  (void)once;
}

}  // namespace torch_tpu::aten
