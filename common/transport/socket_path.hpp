#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/process_own_fd.hpp"

namespace offramp {

// Holds the right to serve a run directory: an exclusive lock on the directory itself, given back by the
// kernel when the process dies; a forked child does not hold it. Errors: SystemError; with ErrorKind::RunInUse when
// another process holds it.
class RunDirectoryLock {
  public:
    explicit RunDirectoryLock(const std::string& run_dir);

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

}  // namespace offramp
