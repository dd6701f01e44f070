#pragma once

#include <cstdint>
#include <string>

#include "common/base/held_folder.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// The lock on an output folder, OUTPUT/.offramp-lock: text, {"run": ID, "pid": N}, of the run that writes there. Its
// launcher has it first exclusively, then shared, and each program that runs a user's code has its own share (its own
// open file): if one program releases its share, the others keep theirs. launch/offramp_launch/output_folder.py
inline constexpr const char* kOutputLockName = ".offramp-lock";

// The run named in the lock's file, "?" if none.
struct OutputHolder {
    std::string run = "?", pid = "?";

    static OutputHolder read(int fd);
};

// A program's share in that lock, which also shows that the folder is its run's, and no other one of that name.
//
// Owns the share; it ends with the process at the latest, and a forked child has none. Thread: one. Errors: Error with
// CannotWrite, RunInUse.
class OutputShare {
  public:
    enum class Lock { Required, Optional };

    // `run_id`: empty for a program that knows none, which goes by whatever lock is there. Without a lock, or with
    // another run's: an error where it must be there, else no share.
    OutputShare(const HeldFolder& output, const std::string& run_id, Lock lock);

    bool is_held() const { return static_cast<bool>(file_); }

  private:
    ProcessOwnFd file_;
};

// The name in the folder still leads to that file. Errors: Error with CannotWrite.
void require_lock_in_place(const HeldFolder& output, int lock);

// The separate folder of a running shard of a job: lock, checkpoint, and the files that its consumers append to
// together. Results of single samples are in OUTPUT itself. Shards are counted from 0.
//
//   OUTPUT/.offramp-shards/7/             an output folder as any run's, but for files of single samples
//
// launch/offramp_launch/jobs/folder.py knows it too.
std::string shard_place(const std::string& output, std::uint64_t index);
// The fix for a done shard with damaged or missing files: for errors. If either of the two was left, missing results
// would count as done. jobs/merge.py has the same text.
std::string to_do_shard_again(const std::string& output, std::uint64_t index);

}  // namespace offramp
