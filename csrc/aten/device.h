// Devices, streams and events of this backend.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace torch_tpu::aten {

int device_count() noexcept;
int current_device();
void set_device(int index);
// The index of a device argument; -1 means the current device. Throws for an index that does not exist.
int resolve_device(c10::Device device);
c10::Stream current_stream(int device);
// Waits for all work of the device; raises what went wrong in it.
void synchronize(int device);

}  // namespace torch_tpu::aten
