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

// Holds the right to serve a run directory: an exclusive lock on the directory itself, given back by the
// kernel when the process dies; a forked child does not hold it. Errors: SystemError; with ErrorKind::RunInUse when
// another process holds it.
class ServingLock {
  public:
    explicit ServingLock(const std::string& run_dir);

  private:
    ProcessOwnFd fd_;
};

// A path that a socket listens at. The run directory's lock is the proof that no other producer does, so a socket of
// this user that is found there is a dead process's, and is replaced. Anyone who may write to the directory could bind
// over it, and new peers would reach only the thief.
//
// Owns: the file, removed by the destructor while it is still the same. Borrows: the socket, for the constructor.
class BoundSocketPath {
  public:
    // Binds the socket and lets it listen, for its owner (mode 0600) or for the group too (0660), whatever the umask.
    // Only for who holds the run directory's lock. Errors: SystemError; when another kind of file or another user's
    // socket is in the way, it stays.
    BoundSocketPath(int fd, std::string path, bool group_may_connect);
    BoundSocketPath(const BoundSocketPath&) = delete;
    BoundSocketPath& operator=(const BoundSocketPath&) = delete;
    ~BoundSocketPath();

    // Errors: SystemError if the path refers to something else, or to nothing.
    void require_still_ours() const;

  private:
    bool still_ours() const noexcept;

    std::string path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

// Reads the property that libzmq attaches to a message that came over ipc: "localhost:UID:GID:PID", the last
// three from SO_PEERCRED. Anything else reads as pid 0 and the largest ids, which no process has: this peer
// is refused, not guessed at.
PeerCredentials parse_peer_address(std::string_view text);

// Counts the connections to listening sockets, of each process and of all. A refused client retries later.
//
// Borrows: the descriptors. Thread: any. Blocks: never. Errors: never.
class ConnectionLimit {
  public:
    // A consumer needs two, one a channel; a process may hold several consumers.
    static constexpr std::size_t kMostOfOneProcess = 32;

    // `most`: of all processes together.
    explicit ConnectionLimit(std::size_t most = most_by_descriptors()) : most_(most) {}

    // False when it is one too many: close it.
    bool accepted(int fd);
    void disconnected(int fd);

    std::size_t connections() const;
    std::size_t refused() const;

    // Half of the descriptors that this process may open; the other half is for pidfds, files and what comes in
    // meanwhile.
    static std::size_t most_by_descriptors();

  private:
    std::size_t most_;
    mutable std::mutex mutex_;
    std::map<int, pid_t> pids_;  // of living connections, by descriptor
    std::size_t refused_ = 0;
};

}  // namespace offramp
