#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "common/shm/run_objects.hpp"
#include "common/shm/run_start.hpp"
#include "common/transport/endpoint.hpp"
#include "producer/egress/run_directory.hpp"

namespace offramp {

// Where a run is, and the right to serve it: its directory, its name, its lock. Had before anything else is made, and
// given up last.
//
// Owns: the locks of directory and run; whatever carries the run's name in /dev/shm once owns_run(): the last process
// to leave removes it. Thread: one. Blocks: never. Errors: as RunDirectory, RunLock::hold() and, of a run that is
// recovered, RunRecovery::find().
class RunDirectoryLock {
  public:
    struct Options {
        std::string run_dir;
        std::string run_id;
        RunStart start = RunStart::Begun;
        bool readable_by_group = false;  // consumers of another user are let in
        // of a run that is recovered: looks at the directory and may refuse, before anything is changed
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

    // The recovery's.
    void serve_as(std::uint32_t epoch) { endpoint_.epoch = epoch; }
    // A run that is recovered is left as it was by whoever fails at that.
    bool owns_run() const { return last_sweep_.armed; }
    void take_ownership() { last_sweep_.armed = true; }

    // An earlier run's summary and status go.
    void remove_old_reports() const { directory_.begin(); }
    // From here on consumers find the run.
    void open_to_consumers() const { endpoint_.publish(); }
    // Consumers find no run here any more, although this process lives on.
    void close_to_consumers() const;

  private:
    const RunStart start_;
    const bool readable_by_group_;
    RunDirectory directory_;
    Endpoint endpoint_;
    // Goes after the lock: whoever leaves a run last removes what carries its name.
    struct LastSweep {
        const RunNames& names;
        std::atomic<bool> armed;
        ~LastSweep() {
            if (armed) sweep_run(names);
        }
    } last_sweep_;
    RunLock lock_;
};

}  // namespace offramp
