#pragma once

#include <string>

#include "common/base/process_own_fd.hpp"
#include "common/shm/run_start.hpp"

namespace offramp {

// Holds a run's directory for one producer: made with mode 0700 (0710 for consumers of another user) when it is not
// there, and locked; a forked child does not hold the lock. Errors: ConfigError (Usage) when it holds anything and no
// run's lock: then nothing in it was touched; RunInUse when a producer has it; CannotWrite; NotPermitted when it
// belongs to another user.
class RunDirectory {
  public:
    // What an earlier run left in it is kept where that run is recovered.
    RunDirectory(const std::string& path, bool group_may_enter, RunStart start);

    // Removes what the earlier run told of itself. Call it when nothing can refuse this run any more; until then that
    // stays as it is.
    void begin() const;
    const std::string& path() const { return path_; }

  private:
    RunStart start_;
    std::string path_;
    ProcessOwnFd lock_;
};

}  // namespace offramp
