#pragma once

#include <functional>
#include <utility>

namespace offramp {

// Owns one file descriptor and closes it. A moved-from or default object holds -1.
class UniqueFd {
  public:
    UniqueFd() noexcept = default;
    explicit UniqueFd(int fd) noexcept : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    ~UniqueFd() { reset(); }

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    int release() noexcept { return std::exchange(fd_, -1); }
    void reset() noexcept;

  private:
    int fd_ = -1;
};

// A descriptor that forked children do not inherit: the child's copy is closed before fork() returns. The kernel
// releases a lock (flock) or a shared-memory object only when the last process closes it. A child that never calls exec
// would hold it for its whole life, and O_CLOEXEC does not help.
//
// Owns the descriptor; unlocks it before closing. In the child, the copy of the object owns nothing. Children of
// clone() or vfork() are not covered: these call no fork handlers. Thread: one at a time; any thread may fork. Errors:
// SystemError.
class ProcessOwnFd {
  public:
    ProcessOwnFd() noexcept = default;
    explicit ProcessOwnFd(UniqueFd fd);
    ProcessOwnFd(ProcessOwnFd&& other) noexcept : fd_(std::move(other.fd_)) {}
    ProcessOwnFd& operator=(ProcessOwnFd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::move(other.fd_);
        }
        return *this;
    }
    ~ProcessOwnFd() { reset(); }

    int get() const noexcept { return fd_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

  private:
    void reset() noexcept;

    UniqueFd fd_;
};

// Delays forks of this process while the object exists, so that no child inherits descriptors that are opened and
// closed meanwhile. Do not use ProcessOwnFd or open_process_own() in the same thread meanwhile. Errors: SystemError.
class ForksWait {
  public:
    ForksWait();
    ForksWait(const ForksWait&) = delete;
    ForksWait& operator=(const ForksWait&) = delete;
    ~ForksWait();
};

// ProcessOwnFd for descriptors that a library opens and closes itself and stores as numbers. `open` returns a
// descriptor, or -1 with errno set. close_process_own() is ::close(), for any descriptor. A forked child closes and
// forgets the descriptors: do not use the library's objects there. Forks wait during `open`, so it must not block.
// Thread: any. Errors: -1 and errno.
int open_process_own(const std::function<int()>& open) noexcept;
int close_process_own(int fd) noexcept;

}  // namespace offramp
