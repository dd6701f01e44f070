#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace offramp {

// The program offramp-consumer, with any processor. Owns: the process, which is killed if finish() was not called or
// the thread that made it ends. Thread: one. Blocks: finish(). Errors:
// SystemError.
class ProgramConsumer {
  public:
    ProgramConsumer(const std::string& run_dir, const std::vector<std::string>& flags);
    ~ProgramConsumer();
    ProgramConsumer(ProgramConsumer&& other) noexcept;
    ProgramConsumer& operator=(ProgramConsumer&&) = delete;

    // Errors: Error if it has ended.
    void require_alive();
    // CPU time of all its threads since its start, without its child processes.
    std::uint64_t cpu_ns() const;
    // Waits for its end. Errors: Error if the exit code is not 0.
    void finish();

  private:
    pid_t pid_ = -1;
};

}  // namespace offramp
