#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"

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

// A run's place and the right to serve it: directory, name, lock. Taken before anything else is made, and released
// last.
//
// Owns: the locks of directory and run; after owns_run(), all objects with the run's name in /dev/shm: the last process
// to leave removes them. Thread: one. Blocks: never. Errors: as RunDirectory, RunLock::hold() and, in a recovery,
// RunRecovery::find().
class RunDirectoryLock {
  public:
    struct Options {
        std::string run_dir;
        std::string run_id;
        RunStart start = RunStart::Begun;
        bool readable_by_group = false;  // admits consumers of another user
        // for a recovery: inspects the directory and may refuse, before anything is changed
        std::function<void(const std::string& run_dir)> check_recovered{};
    };
    explicit RunDirectoryLock(const Options& options);
    RunDirectoryLock(const RunDirectoryLock&) = delete;
    RunDirectoryLock& operator=(const RunDirectoryLock&) = delete;

    const std::string& folder() const { return directory_.path(); }
    const RunNames& names() const { return endpoint_.names; }
    const Endpoint& endpoint() const { return endpoint_; }
    bool is_recovered() const { return start_ == RunStart::Recovered; }
    bool readable_by_group() const { return readable_by_group_; }

    // Makes a directory for each group of consumers, before open_to_consumers(). Errors: as RunDirectory's.
    void serve_groups(const std::vector<std::string>& names);

    // Called by the recovery.
    void serve_as(std::uint32_t epoch) { endpoint_.epoch = epoch; }
    // A failed recovery leaves the run as it was.
    bool owns_run() const { return last_sweep_.armed; }
    void take_ownership() { last_sweep_.armed = true; }

    // Removes an earlier run's summary and status.
    void remove_old_reports() const { directory_.begin(); }
    // From here on, consumers find the run.
    void open_to_consumers() const;
    // Consumers no longer find the run, although this process lives on.
    void close_to_consumers() const;

  private:
    const RunStart start_;
    const bool readable_by_group_;
    RunDirectory directory_;
    Endpoint endpoint_;
    // Destroyed after the lock: the last process to leave a run removes the objects with its name.
    struct LastSweep {
        const RunNames& names;
        std::atomic<bool> armed;
        ~LastSweep() {
            if (armed) sweep_run(names);
        }
    } last_sweep_;
    RunLock lock_;
    std::vector<RunDirectory> groups_;
};

}  // namespace offramp
