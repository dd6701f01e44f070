#pragma once

#include <sys/types.h>

#include <string>

namespace offramp {

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

}  // namespace offramp
