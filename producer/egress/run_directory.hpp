#pragma once

#include <string>

#include "common/base/process_own_fd.hpp"
#include "common/shm/run_start.hpp"

namespace offramp {

// Holds a run's directory for one producer: created with mode 0700 (0710 for consumers of another user), and locked. A
// forked child does not hold the lock. Errors: ConfigError (Usage) if it holds files but no run's lock, and leaves them
// untouched; RunInUse when a producer has it; CannotWrite; NotPermitted when it belongs to another user.
class RunDirectory {
  public:
    // A recovered run keeps the files of its predecessor.
    RunDirectory(const std::string& path, bool group_may_enter, RunStart start);

    // Removes an earlier run's reports. Call it once this run can no longer be refused: until then they stay.
    void begin() const;
    const std::string& path() const { return path_; }

  private:
    RunStart start_;
    std::string path_;
    ProcessOwnFd lock_;
};

}  // namespace offramp
