// Fused mode: ops are recorded, and run later, many in one program.
//
// A trace is a list of calls whose results are values: arrays that do not exist yet (DeviceBuffer, kPending). It ends
// (is flushed) when somebody needs an array, at a step boundary, or when it is long; then it is one program, whose
// outputs are the values that are still referenced. Values that died inside never reach memory, and inputs that only
// the trace still holds are donated. Program and key depend on the calls, on how values flow, on what is still alive
// and on what may be donated, and not on runtime values: a steady loop compiles a few programs and then none.
//
// Flushed traces wait in a queue, in order, while the pool compiles their programs; Python goes on recording.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/flush_reason.h"
#include "runtime/memory.h"
#include "runtime/program.h"
#include "runtime/trace_program.h"

namespace torch_tpu::runtime {

// The traces of one device. Thread-safe.
class TraceQueue {
 public:
  explicit TraceQueue(int device) : device_(device) {}

  // Appends a call; fills one pending array per defined result, and gives such to the storages that it writes.
  void record(std::shared_ptr<const Program> program, Call& call, const int64_t* starts, std::span<BufferRef> results);
  // Ends the trace that is being recorded and queues it. Waits only while the queue is long.
  void flush(FlushReason reason);
  // Ends the trace and waits until all traces are issued; raises the first error of those that failed.
  void finish(FlushReason reason);

  // Nothing is recorded or queued.
  bool is_idle();

  // Waits until the array is made; raises the error of its trace.
  void make(DeviceBuffer& buffer);
  // A pending array's last reference went.
  void forget(DeviceBuffer& buffer);

  // Runs the traces at the head of the queue whose programs are ready.
  void pump();

 private:
  struct Job {
    std::unique_ptr<Trace> trace;
    std::shared_ptr<TraceProgram> program;
  };
  int value_of(const BufferRef& buffer, const Program::Input& type);
  std::optional<FlushReason> cut_after(uint64_t program_id);
  void detach(FlushReason reason);
  void run_queued();  // without the lock; waits while the queue is long
  void run(Job& job);

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Trace> current_ = std::make_unique<Trace>();
  uint64_t next_serial_ = 1;
  std::deque<std::unique_ptr<Job>> jobs_;
  bool running_ = false;
  std::exception_ptr first_failure_;

  // Where traces were cut for their size: a hash of the programs recorded last, and the trace's length then. The same
  // place of the next iteration of a loop is cut again, so that iterations meet the same keys.
  static constexpr size_t kContext = 16;
  std::array<uint64_t, kContext> recent_{};
  size_t recorded_ = 0;
  uint64_t context_ = 0;
  std::unordered_map<uint64_t, size_t> cuts_;
  std::optional<FlushReason> cut_;  // before the next call
};

TraceQueue& trace_queue(int device);
// All devices.
void flush_traces(FlushReason reason);

}  // namespace torch_tpu::runtime
