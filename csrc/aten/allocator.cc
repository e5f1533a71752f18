#include "aten/allocator.h"

#include <ATen/ATen.h>

#include <mutex>
#include <vector>

#include "aten/device.h"
#include "runtime/session.h"

namespace torch_tpu::aten {
namespace {

// Gives each live storage a slot, and with it a range of addresses.
class AddressBook {
 public:
  static AddressBook& instance() {
    static auto* const book = new AddressBook;
    return *book;
  }

  void* add(runtime::Storage* storage) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      TORCH_CHECK(slots_.size() < kMaxSlots, "too many tensors on the tpu device");
      free_.push_back(slots_.size());
      slots_.push_back(nullptr);
    }
    const uint64_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = storage;
    return reinterpret_cast<void*>(kBase | slot << kShift);
  }

  void remove(const void* address) {
    const uint64_t slot = slot_of(address);
    std::lock_guard lock(mutex_);
    slots_[slot] = nullptr;
    free_.push_back(slot);
  }

  runtime::Storage* find(const void* address) {
    if (reinterpret_cast<uint64_t>(address) >> 62 != kBase >> 62) return nullptr;
    const uint64_t slot = slot_of(address);
    std::lock_guard lock(mutex_);
    return slot < slots_.size() ? slots_[slot] : nullptr;
  }

 private:
  static constexpr int kShift = 40;
  static constexpr uint64_t kBase = uint64_t{1} << 62;  // not canonical on x86-64 and AArch64: reading it faults
  static constexpr uint64_t kMaxSlots = uint64_t{1} << (62 - kShift);
  static uint64_t slot_of(const void* address) { return (reinterpret_cast<uint64_t>(address) & ~kBase) >> kShift; }

  std::mutex mutex_;
  std::vector<runtime::Storage*> slots_;
  std::vector<uint64_t> free_;
};

c10::CachingDeviceAllocator::Stat stat(int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
  c10::CachingDeviceAllocator::Stat s;
  s.current = current;
  s.peak = peak;
  s.allocated = allocated;
  s.freed = freed;
  return s;
}

// Storages are made without memory; buffers come from the plugin with the programs that fill them. The statistics are
// of the buffers. XLA keeps no pool that we could see, so what is reserved is what is allocated.
class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    const int device = current_device();
    check_size(static_cast<int64_t>(n), device);
    auto* storage = new runtime::Storage;
    storage->nbytes = static_cast<int64_t>(n);
    storage->device = device;
    return adopt(storage);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_storage; }
  void copy_data(void* dest, const void* src, std::size_t) const override {
    AddressBook& book = AddressBook::instance();
    const runtime::Storage& from = *book.find(src);
    runtime::Storage& to = *book.find(dest);
    to.buffer = from.buffer;  // shared until one of them is written
    to.element = from.element;
    to.dims = from.dims;
  }

  bool initialized() override { return runtime::Session::started(); }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const runtime::MemoryCounters& c = runtime::memory_counters(device);
    const auto bytes = stat(c.bytes, c.peak_bytes, c.bytes_allocated_total, c.bytes_freed_total);
    const auto count = stat(c.buffers, c.peak_buffers, c.buffers_allocated_total, c.buffers_freed_total);
    c10::CachingDeviceAllocator::DeviceStats s;
    constexpr auto kAll = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
    s.allocated_bytes[kAll] = s.reserved_bytes[kAll] = s.active_bytes[kAll] = s.requested_bytes[kAll] = bytes;
    s.allocation[kAll] = s.segment[kAll] = s.active[kAll] = count;
    s.num_ooms = c.out_of_memory;
    s.num_device_alloc = c.buffers_allocated_total;
    s.num_device_free = c.buffers_freed_total;
    return s;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override { runtime::memory_counters(device).reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex device) override { runtime::memory_counters(device).reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const int64_t total = runtime::Session::get().total_memory(device);
    const int64_t used = runtime::memory_counters(device).bytes;
    return {static_cast<size_t>(std::max<int64_t>(0, total - used)), static_cast<size_t>(total)};
  }
};

}  // namespace

c10::DeviceAllocator& allocator() {
  static Allocator* const instance = new Allocator;  // storages may be freed after static destruction
  return *instance;
}

c10::DataPtr adopt(runtime::Storage* storage) {
  storage->address = AddressBook::instance().add(storage);
  return {storage->address, storage, &delete_storage,
          c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(storage->device))};
}

void delete_storage(void* p) {
  auto* storage = static_cast<runtime::Storage*>(p);
  AddressBook::instance().remove(storage->address);
  delete storage;
}

runtime::Storage* find_storage(const void* address, int64_t* offset) {
  runtime::Storage* storage = AddressBook::instance().find(address);
  if (storage) *offset = static_cast<const char*>(address) - static_cast<const char*>(storage->address);
  return storage;
}

void check_size(int64_t bytes, int device) {
  if (bytes < (int64_t{1} << 30)) return;  // asks the session only for what could matter
  const int64_t total = runtime::Session::get().total_memory(device);
  if (bytes <= total) return;
  ++runtime::memory_counters(device).out_of_memory;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "TPU out of memory. Tried to allocate ", bytes, " bytes on tpu:", device,
                   ", which has ", total, " bytes (", runtime::memory_counters(device).bytes.load(), " in use)");
}

// The registry takes the allocator at load time; it does nothing until it is asked for memory.
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator());

}  // namespace torch_tpu::aten
