#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace offramp {

// The program offramp-consumer beside this one, as users start it: with any of its processors. Owns: the process,
// killed when it is not waited for, and when the thread that made it ends. Thread: one. Blocks: finish(). Errors:
// SystemError.
class ProgramConsumer {
  public:
    ProgramConsumer(const std::string& run_dir, const std::vector<std::string>& flags);
    ~ProgramConsumer();
    ProgramConsumer(ProgramConsumer&& other) noexcept;
    ProgramConsumer& operator=(ProgramConsumer&&) = delete;

    // Errors: Error when it has ended, whatever for.
    void require_alive();
    // Of all its threads since its start, not of programs that it has started.
    std::uint64_t cpu_ns() const;
    // Waits for its end. Errors: Error when that was not with 0.
    void finish();

  private:
    pid_t pid_ = -1;
};

}  // namespace offramp
