#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/unique_fd.hpp"
#include "common/transport/ports.hpp"

namespace offramp {

// Holds the right to serve a run directory: an exclusive lock on the directory itself. The kernel releases it when the
// process dies. A forked child does not hold it. Errors: SystemError; with ErrorKind::RunInUse if another process holds
// it.
class ServingLock {
  public:
    explicit ServingLock(const std::string& run_dir);

  private:
    ProcessOwnFd fd_;
};

// The path of a listening socket. The run directory's lock proves that no other producer serves it, so an existing
// socket of this user belongs to a dead process and is replaced. Any process that can write to the directory could
// replace the path, and receive all new peers.
//
// Owns: the file; the destructor removes it unless it was replaced. Borrows: the socket, for the constructor.
class BoundSocketPath {
  public:
    // Binds the socket and listens, for its owner (mode 0600) or also for the group (0660), independent of the umask.
    // Requires the ServingLock. Errors: SystemError, also if another kind of file or another user's socket has the
    // path; it is not removed.
    BoundSocketPath(int fd, std::string path, bool group_may_connect);
    BoundSocketPath(const BoundSocketPath&) = delete;
    BoundSocketPath& operator=(const BoundSocketPath&) = delete;
    ~BoundSocketPath();

    // Errors: SystemError if the path is missing, or refers to another file.
    void require_still_ours() const;

  private:
    bool still_ours() const noexcept;

    std::string path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

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
