#pragma once

#include <functional>
#include <utility>

namespace offramp {

// Owns one file descriptor and closes it. A moved-from or default one holds -1.
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

// A descriptor that a forked child does not hold: its copy is closed there before fork() returns. The kernel gives a
// lock (flock) or an object of shared memory back only when the last process that has it open lets go, and a child that
// never calls exec (O_CLOEXEC does not help then) would hold what is this process's for as long as it lives.
//
// Owns the descriptor; unlocks before it closes. In the child the copy of the object owns nothing any more. A child of
// clone() or vfork() is not seen: those call no fork handlers. Thread: one at a time, forks may come from any. Errors:
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

// While it lives, no fork of this process begins: no child inherits what is opened and closed meanwhile. The same
// thread must not use ProcessOwnFd or open_process_own() meanwhile. Errors: SystemError.
class ForksWait {
  public:
    ForksWait();
    ForksWait(const ForksWait&) = delete;
    ForksWait& operator=(const ForksWait&) = delete;
    ~ForksWait();
};

// The same for descriptors that a library opens and closes itself and keeps as numbers. `open` returns one, or -1 with
// errno set. close_process_own() is ::close(), for any descriptor. In a forked child they are closed and forgotten: the
// library's objects must not be used there. Forks wait meanwhile, so `open` must not block.
// Thread: any. Errors: -1 and errno.
int open_process_own(const std::function<int()>& open) noexcept;
int close_process_own(int fd) noexcept;

}  // namespace offramp
