#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/app/program/output_share.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// Keeps a second run out of an output folder, by OUTPUT/.offramp-lock (output_share.hpp), and holds the folder. If the
// launch script has the lock for this very run, this program takes a share of it.
//
// Owns: its share, the open folder, and the lock's file if it created it. On a file system without locks a second run
// would go unnoticed: that is logged. Thread: one at a time. Errors: RunInUse, with the other run and its process;
// Error with CannotWrite.
class OutputLock {
  public:
    // `folder` must exist. Required: the launch script must hold its lock, otherwise the folder is another one.
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
    bool is_own_ = false;  // false: the launch script owns the lock
};

// The folders besides the output folder that a run's consumers write to: one per processor if there are several, the
// folder of --write-path, and a job's folder. Held open as soon as they exist.
//
// Owns the open folders. Thread: one at a time. Blocks: on the file system. Errors: Error with CannotWrite.
class ResultFolders {
  public:
    ResultFolders(const ResultSettings& config, const std::string& write_path);

    // Checks that each name still leads to the folder that it led to at the first call that found one.
    void require_in_place();

  private:
    void await(const std::string& folder, const std::string& what);

    std::vector<std::pair<std::string, std::string>> awaited_;  // each folder, and its description
    std::deque<HeldFolder> held_;
};

}  // namespace offramp
