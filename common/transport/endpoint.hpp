#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/shm/run_objects.hpp"

namespace offramp {

// Where a run is met: its directory, channels' addresses and objects' names. Written by the producer as the
// small text file `live/endpoint` in the run directory once everything in it can be attached to; read by consumers
// and the launch script.
struct Endpoint {
    std::string run_dir;
    RunNames names;
    std::uint64_t producer_pid = 0;
    std::uint32_t epoch = 0;

    // Separate sockets for each run and epoch: messages in a consumer's old one, which reconnects by itself, can never
    // reach the next producer. NAME is the lower half of nonce + epoch.
    std::string work_address() const;       // ipc://RUN_DIR/live/work-NAME.sock
    std::string free_list_address() const;  // ipc://RUN_DIR/live/free-NAME.sock
    std::string file() const;               // RUN_DIR/live/endpoint

    // Written to a temporary name, then renamed: readers see a whole file or none. Errors: SystemError.
    void publish() const;
    // Nothing when the file is not there yet. Errors: ProtocolError when it is not what publish() writes or
    // of another version; SystemError when it cannot be opened (NotPermitted: another user's run).
    static std::optional<Endpoint> read(const std::string& run_dir);
    // Removes the sockets that previous producers' deaths left in the run directory. Only for who has the right to
    // serve it.
    void remove_previous_sockets() const;
    // Errors: ConfigError when the path is not absolute, holds a control character, or would make the
    // sockets' paths longer than a socket address holds (107 bytes).
    static void check_run_dir(const std::string& run_dir);
};

}  // namespace offramp
