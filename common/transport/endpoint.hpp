#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "common/shm/run_objects.hpp"

namespace offramp {

// How to reach a run: its directory, channel addresses and object names. The producer writes it as the text file
// `live/endpoint` in the run directory, once everything in it can be attached to. Consumers and the launch script read
// it.
struct Endpoint {
    std::string run_dir;
    RunNames names;
    std::uint64_t producer_pid = 0;
    std::uint32_t epoch = 0;
    // A run with groups of consumers: their names, in order. Each has an endpoint of its own, in group_dir().
    std::vector<std::string> groups{};

    // Each run and epoch has its own sockets: a consumer's old socket, which reconnects by itself, can never send
    // messages to the next producer. NAME is the lower half of nonce + epoch.
    std::string work_address() const;       // ipc://RUN_DIR/live/work-NAME.sock
    std::string free_list_address() const;  // ipc://RUN_DIR/live/free-NAME.sock
    std::string file() const;               // RUN_DIR/live/endpoint
    // For a consumer of that group, a run directory.
    static std::string group_dir(const std::string& run_dir, const std::string& group);  // RUN_DIR/groups/GROUP
    // The group's endpoint.
    Endpoint of_group(const std::string& group) const;
    // Errors: ConfigError if the run has groups: a consumer joins one of them.
    void require_no_groups() const;
    // Errors: ConfigError if the run has no group of this name.
    void require_group(const std::string& group) const;

    // Writes a temporary file, then renames it: readers see a complete file or none. Errors: SystemError.
    void publish() const;
    // Returns nothing if the file does not exist yet. Errors: ProtocolError if it is malformed or has another version;
    // SystemError if it cannot be opened (NotPermitted: another user's run).
    static std::optional<Endpoint> read(const std::string& run_dir);
    // Removes sockets of previous, dead producers from the run directory. Requires the ServingLock.
    void remove_previous_sockets() const;
    // Errors: ConfigError if the path is not absolute, contains a control character, or makes the sockets' paths too
    // long for a socket address (107 bytes).
    static void check_run_dir(const std::string& run_dir);
};

// Holds the right to serve a run directory: an exclusive lock on the directory itself. The kernel releases it when the
// process dies. A forked child does not hold it. Errors: SystemError; with ErrorKind::RunInUse if another process holds
// it.
class ServingLock {
  public:
    explicit ServingLock(const std::string& run_dir);

  private:
    ProcessOwnFd fd_;
};

}  // namespace offramp
