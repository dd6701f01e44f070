#pragma once

#include <string>

#include "common/app/program/output_share.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/process_own_fd.hpp"

namespace offramp {

// Keeps a second run out of an output folder, by OUTPUT/.offramp-lock (output_share.hpp), and holds the folder. If the
// launch script has the lock for this very run, this program takes a share of it.
//
// Owns: its share, the open folder, and the lock's file if it created it. On a file system without locks a second run
// would go unnoticed: that is logged. Thread: one at a time. Errors: RunInUse, with the other run and its process;
// Error with CannotWrite.
class OutputLock {
  public:
    // `folder` exists. Required: the launch script holds its lock, or this is another folder.
    OutputLock(const std::string& folder, const std::string& run_id,
               OutputShare::Lock lock = OutputShare::Lock::Optional);
    ~OutputLock();
    OutputLock(const OutputLock&) = delete;
    OutputLock& operator=(const OutputLock&) = delete;

    static constexpr const char* kName = kOutputLockName;

    const HeldFolder& folder() const { return folder_; }
    // Checks that the names of folder and lock still lead to the held ones. Call it before recording completed work.
    void require_in_place() const;

  private:
    bool try_lock(const std::string& run_id, OutputShare::Lock lock);

    HeldFolder folder_;
    ProcessOwnFd file_;
    bool is_own_ = false;  // otherwise the launch script's
};

}  // namespace offramp
