#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string_view>

#include "common/transport/ports.hpp"

namespace offramp {

// Parses the property that libzmq attaches to a message over ipc: "localhost:UID:GID:PID", the last three from
// SO_PEERCRED. Any other text gives pid 0 and the largest ids, which no process has, so that the peer is refused.
PeerCredentials parse_peer_address(std::string_view text);

// Limits the connections to listening sockets, per process and in total. A refused client retries later.
//
// Borrows: the descriptors. Thread: any. Blocks: never. Errors: never.
class ConnectionLimit {
  public:
    // A consumer needs two, one per channel; a process may contain several consumers.
    static constexpr std::size_t kMostOfOneProcess = 32;

    // `most`: the limit for all processes together.
    explicit ConnectionLimit(std::size_t most = most_by_descriptors()) : most_(most) {}

    // Counts a connection. Returns false if it exceeds a limit: close it then.
    bool accepted(int fd);
    void disconnected(int fd);

    std::size_t connections() const;
    std::size_t refused() const;

    // Half of this process's descriptor limit. The other half is for pidfds, files and new connections.
    static std::size_t most_by_descriptors();

  private:
    std::size_t most_;
    mutable std::mutex mutex_;
    std::map<int, pid_t> pids_;  // of open connections, by descriptor
    std::size_t refused_ = 0;
};

}  // namespace offramp
