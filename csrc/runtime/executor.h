// Runs cached programs.
#pragma once

#include <memory>
#include <span>

#include "runtime/program.h"

namespace torch_tpu::runtime {

enum class EagerMode : int { kStrict = 0, kDebug = 1 };
EagerMode eager_mode();
void set_eager_mode(EagerMode mode);

// The program of a call that was not found: lowers, compiles (or loads from disk) and inserts it.
std::shared_ptr<const Program> build_program(const Call& call, const CallDescription& description, uint64_t hash);

// Runs `program` on the call's tensors; `starts` as Program::compute_starts gave them. Fills one buffer per defined
// result, in order, and puts written arrays into their storages. Throws pjrt::Error, IndexError (debug mode).
void execute(const Program& program, Call& call, const int64_t* starts, std::span<BufferRef> results);

// Forgets the uploaded runtime values that are kept for reuse.
void clear_packed_cache();

// The storage's array, made of zeros where nothing was written yet.
DeviceBuffer& materialize(Storage& storage);

}  // namespace torch_tpu::runtime
