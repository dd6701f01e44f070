#pragma once

#include <string>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Keeps a second run out of an output folder: an exclusive lock on OUTPUT/.offramp-lock, which says whose it is. Where
// the launch script holds it already, for this very run and all its programs, there is nothing to lock.
//
// Owns: the lock, and the file while it has the lock; it goes with the process at the latest. On a file system without
// locks two runs at once would not be noticed: that is logged. Errors: RunInUse, with the other run and its process;
// SystemError with CannotWrite.
class OutputLock {
  public:
    // `folder` exists.
    OutputLock(const std::string& folder, const std::string& run_id);
    ~OutputLock();
    OutputLock(const OutputLock&) = delete;
    OutputLock& operator=(const OutputLock&) = delete;

    static constexpr const char* kName = ".offramp-lock";

  private:
    bool try_lock(const std::string& folder, const std::string& run_id);

    std::string path_;
    UniqueFd file_;  // none: the launch script's
};

}  // namespace offramp
