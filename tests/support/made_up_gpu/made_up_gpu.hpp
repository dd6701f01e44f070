#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace offramp::support {

// The fault of a made-up GPU: its call number `at`, counted from 1, fails with CUDA's `error`. Threads call it in any
// order, so only the number of a call of one `function` means the same in each run.
struct GpuFault {
    enum class Kind {
        Once,      // this call only
        Function,  // and each later call of the same function
        Lost,      // and each later call that needs the context; work that is not done is dropped
        Stall,     // no error: the GPU finishes no work from that call on
    };
    int at = 0;  // 0: no fault
    int error = 0;
    Kind kind = Kind::Once;
    std::string function{};  // the one whose calls count; empty: all do
};

// Controls a libcuda.so.1 that works without a GPU, in this process. Its memory is the host's. Work that was submitted
// is done as late as the driver's rules allow: when a thread waits for an event behind it. A missing wait therefore
// always shows. Thread: any.
class MadeUpGpu {
  public:
    virtual ~MadeUpGpu() = default;
    // As in a new process: forgets the fault, work, handles and violations.
    virtual void restart() = 0;
    // Counts calls from here.
    virtual void fail(const GpuFault& fault) = 0;
    // Stalled work goes on.
    virtual void resume() = 0;
    // The function whose call failed or stalled; empty: none has yet.
    virtual std::string faulty_function() = 0;
    virtual bool is_lost() = 0;
    // Threads that wait for an event.
    virtual int waiting() = 0;
    // Submits a copy to the legacy default stream, as a model's kernels.
    virtual void compute(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
    // Work that is not done yet reads or writes these bytes.
    virtual bool uses(const std::byte* memory, std::size_t bytes) = 0;
    // Streams, events, registrations and allocations that were not freed.
    virtual int live_objects() = 0;
    // What no driver forgives: a handle that was destroyed, memory freed under a copy.
    virtual std::vector<std::string> violations() = 0;
};

}  // namespace offramp::support
