// The device's c10 allocator. A data pointer of this device is the address of the runtime::Storage behind it: an
// identity that can be compared, never memory to read.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "runtime/storage.h"

namespace torch_tpu::aten {

c10::DeviceAllocator& allocator();
// Wraps a storage, taking ownership.
c10::DataPtr adopt(runtime::Storage* storage);
// Throws OutOfMemoryError where `bytes` can never fit on the device.
void check_size(int64_t bytes, int device);

}  // namespace torch_tpu::aten
