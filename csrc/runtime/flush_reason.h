// Why a trace ends.
#pragma once

namespace torch_tpu::runtime {

enum class FlushReason : int { kRead, kSynchronize, kStep, kSize, kLoop, kMode };
inline constexpr int kFlushReasons = 6;
const char* to_string(FlushReason reason);

}  // namespace torch_tpu::runtime
