// The device's c10 allocator. A data pointer of this device is an identity that can be compared and offset, never
// memory to read: each storage has a range of 1 TiB of addresses that no process can map, so that pointers of two
// storages are never mistaken for one another, and a pointer that comes back (DLPack) leads to its storage.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "runtime/storage.h"

namespace torch_tpu::aten {

c10::DeviceAllocator& allocator();
// Wraps a storage, taking ownership.
c10::DataPtr adopt(runtime::Storage* storage);
// The storage whose range holds the address, and how many bytes into it; null where there is none (any more).
runtime::Storage* find_storage(const void* address, int64_t* offset);
void delete_storage(void* storage);
// Whether the pointer was made by adopt(), so that its context is the storage.
inline bool is_own(const c10::DataPtr& p) { return p.get_deleter() == &delete_storage; }
// Throws OutOfMemoryError where `bytes` can never fit on the device.
void check_size(int64_t bytes, int device);

}  // namespace torch_tpu::aten
