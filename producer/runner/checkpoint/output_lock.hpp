#pragma once

#include <string>

#include "common/base/held_folder.hpp"
#include "common/base/process_own_fd.hpp"
#include "common/program/output_share.hpp"

namespace offramp {

// Keeps a second run out of an output folder, by OUTPUT/.offramp-lock (output_share.hpp), and holds the folder. Where
// the launch script has the lock already, for this very run, this program takes its share.
//
// Owns: its share, the open folder, and the lock's file where it made it itself. On a file system without locks two
// runs at once would not be noticed: that is logged. Thread: one at a time. Errors: RunInUse, with the other run and
// its process; Error with CannotWrite.
class OutputLock {
  public:
    // `folder` exists. Required: the launch script has it, else this is not the folder that it has.
    OutputLock(const std::string& folder, const std::string& run_id,
               OutputShare::Lock lock = OutputShare::Lock::Optional);
    ~OutputLock();
    OutputLock(const OutputLock&) = delete;
    OutputLock& operator=(const OutputLock&) = delete;

    static constexpr const char* kName = kOutputLockName;

    const HeldFolder& folder() const { return folder_; }
    // The names of folder and lock lead to what is held. Before anything is noted as done.
    void require_in_place() const;

  private:
    bool try_lock(const std::string& run_id, OutputShare::Lock lock);

    HeldFolder folder_;
    ProcessOwnFd file_;
    bool is_own_ = false;  // else the launch script's
};

}  // namespace offramp
