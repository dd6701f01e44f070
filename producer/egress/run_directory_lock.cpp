#include "producer/egress/run_directory_lock.hpp"

#include <unistd.h>

#include "producer/recovery/run_recovery.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kFirstEpoch = 1;

Endpoint endpoint_of(const RunDirectoryLock::Options& options, const std::string& run_dir) {
    const auto pid = static_cast<std::uint64_t>(::getpid());
    if (options.start == RunStart::Recovered) {
        Endpoint endpoint = RunRecovery::find(run_dir, options.run_id);
        if (options.check_recovered) options.check_recovered(run_dir);
        endpoint.producer_pid = pid;
        return endpoint;
    }
    RunNames names{options.run_id, RunNames::random_nonce()};
    RunNames::check_run_id(names.run_id);
    return {.run_dir = run_dir, .names = names, .producer_pid = pid, .epoch = kFirstEpoch};
}

}  // namespace

RunDirectoryLock::RunDirectoryLock(const Options& options)
    : start_(options.start),
      readable_by_group_(options.readable_by_group),
      directory_(options.run_dir, readable_by_group_, start_),
      endpoint_(endpoint_of(options, directory_.path())),
      last_sweep_{endpoint_.names, !is_recovered()},
      lock_(RunLock::hold(endpoint_.names, !is_recovered(), readable_by_group_)) {}

void RunDirectoryLock::close_to_consumers() const { ::unlink(endpoint_.file().c_str()); }

}  // namespace offramp
