#pragma once

#include <cstdint>
#include <string>

#include "common/base/held_folder.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// The lock on an output folder, OUTPUT/.offramp-lock. Its text, {"run": ID, "pid": N}, names the run that writes to the
// folder. The run's launcher holds it exclusively at first, then shared. Each program that runs a user's code has its
// own share (its own open file): if one program releases its share, the others keep theirs. See also
// launch/offramp_launch/output_folder.py.
inline constexpr const char* kOutputLockName = ".offramp-lock";

// The run that the lock file names; "?" if none.
struct OutputHolder {
    std::string run = "?", pid = "?";

    static OutputHolder read(int fd);
};

// A program's share of that lock. It also proves that the folder belongs to the program's run, and is not another
// folder of the same name.
//
// Owns the share, which ends with the process at the latest. A forked child does not inherit it. Thread: one. Errors:
// Error with CannotWrite, RunInUse.
class OutputShare {
  public:
    enum class Lock { Required, Optional };

    // `run_id`: empty if the program does not know its run; then it shares any lock. If the lock is missing, or another
    // run's: an error if `lock` is Required, otherwise no share.
    OutputShare(const HeldFolder& output, const std::string& run_id, Lock lock);

  private:
    ProcessOwnFd file_;
};

// Checks that the lock's name still refers to the open file. Errors: Error with CannotWrite.
void require_lock_in_place(const HeldFolder& output, int lock);

// The folder of a running shard of a job: its lock, its checkpoint, and the files that all its consumers append to.
// Results of single samples are in OUTPUT itself. Shards are counted from 0.
//
//   OUTPUT/.offramp-shards/7/             an output folder as any run's, but for files of single samples
//
// launch/offramp_launch/jobs/folder.py has the same path.
std::string shard_place(const std::string& output, std::uint64_t index);
// The fix, for errors, for a completed shard with damaged or missing files. It removes two things: if either remained,
// missing results would count as done. jobs/merge.py has the same text.
std::string to_do_shard_again(const std::string& output, std::uint64_t index);

}  // namespace offramp
