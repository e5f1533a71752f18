// Runs cached programs.
#pragma once

#include <memory>
#include <span>

#include "pjrt/error.h"
#include "runtime/program.h"

namespace torch_tpu::runtime {

struct TraceSummary;

enum class EagerMode : int { kStrict = 0, kDebug = 1, kFused = 2 };
EagerMode eager_mode();
void set_eager_mode(EagerMode mode);

// The program of a call that was not found: lowers, compiles (or loads from disk) unless it is for a trace, and
// inserts.
std::shared_ptr<const Program> build_program(const Call& call, CallDescription description, uint64_t hash,
                                             bool compile);

// Runs `program` on the call's tensors; `starts` as Program::compute_starts gave them. Fills one buffer per defined
// result, in order, and puts written arrays into their storages. Throws pjrt::Error, IndexError (debug mode).
void execute(const Program& program, Call& call, const int64_t* starts, std::span<BufferRef> results);

// The call's runtime values, as the program reads them: program.packed_words of them. Draws random numbers' blocks.
void pack(const Program& program, Call& call, const int64_t* starts, uint32_t* words);
BufferRef upload_packed(std::span<const uint32_t> words, int device);

// The run was issued and failed at once: there are outputs, which carry the error, and donated arguments are gone.
class FailedRun : public pjrt::Error {
  using pjrt::Error::Error;
};

// Issues one run and does not wait. `keep` names the arguments that may not be donated. The outputs become the
// caller's. Throws pjrt::Error, with `op` in the text, when nothing was issued, else FailedRun.
void launch(const pjrt::LoadedExecutable& executable, const std::string& op, std::span<PJRT_Buffer* const> args,
            std::span<const int64_t> keep, int device, std::span<PJRT_Buffer*> outputs);
// The same for a trace or a part of one.
void launch(const pjrt::LoadedExecutable& executable, std::shared_ptr<const TraceSummary> origin,
            std::span<PJRT_Buffer* const> args, std::span<const int64_t> keep, int device,
            std::span<PJRT_Buffer*> outputs);

// Forgets the uploaded runtime values that are kept for reuse.
void clear_packed_cache();

// The storage's array, made of zeros where nothing was written yet.
DeviceBuffer& materialize(Storage& storage);

}  // namespace torch_tpu::runtime
