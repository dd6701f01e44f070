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

// Says that nobody listens at a path that a socket is about to be bound to: libzmq unlinks whatever stands
// there. A dead process's socket may be there. Errors: SystemError with ErrorKind::RunInUse when a live
// process listens, and when something else than a socket is in the way.
void require_free_socket_path(const std::string& path);

// Knows the file of a socket that this process has bound. Anyone who may write to the directory could bind
// over it, and new peers would reach only the thief. Owns: the file, removed by the destructor while it is
// still the same (libzmq may leave it).
class BoundSocketPath {
  public:
    explicit BoundSocketPath(std::string path);
    BoundSocketPath(const BoundSocketPath&) = delete;
    BoundSocketPath& operator=(const BoundSocketPath&) = delete;
    ~BoundSocketPath();

    // Errors: SystemError when the path stands for something else, or for nothing.
    void require_still_ours() const;

  private:
    bool still_ours() const noexcept;

    std::string path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

}  // namespace offramp
