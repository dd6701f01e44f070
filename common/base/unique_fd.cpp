#include "common/base/unique_fd.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {

void UniqueFd::reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

namespace {

// Lists a descriptor's number while its object has it open. Both change under the mutex, which is held during a fork,
// so a child never closes a number that was reused meanwhile. In the child, the number may be reused while the copy of
// the object still holds it. It stays listed, as Copy, until that copy is gone.
struct OwnFds {
    enum class FdKind { Object, Copy, Library };
    struct Entry {
        int fd = -1;
        FdKind kind = FdKind::Object;
    };
    std::mutex mutex;
    std::vector<Entry> entries;
};

using FdKind = OwnFds::FdKind;

// Never destroyed: static objects may outlive it.
OwnFds& own_fds() {
    static OwnFds& made = *new OwnFds;
    return made;
}

void lock_before_fork() { own_fds().mutex.lock(); }
void unlock_behind_fork() { own_fds().mutex.unlock(); }
// Do not allocate or free memory here: another thread may have held the allocator's locks.
void close_in_the_child() {
    auto& entries = own_fds().entries;
    for (OwnFds::Entry& entry : entries) {
        if (entry.kind != FdKind::Copy) ::close(entry.fd);
        if (entry.kind == FdKind::Object) entry.kind = FdKind::Copy;
    }
    std::erase_if(entries, [](const OwnFds::Entry& entry) { return entry.kind == FdKind::Library; });
    own_fds().mutex.unlock();
}

// Registers the handlers once per process.
void close_in_children() {
    static const int problem = ::pthread_atfork(lock_before_fork, unlock_behind_fork, close_in_the_child);
    if (problem != 0) throw SystemError("registering a fork handler", problem);
}

// Moves the descriptor to a number that no copy holds. Locks remain: they belong to the open file, not to the number.
// Call it under the mutex.
UniqueFd apart_from_copies(UniqueFd fd) {
    const auto is_registered = [](int number) {
        return std::ranges::any_of(own_fds().entries, [&](const OwnFds::Entry& entry) {
            return entry.kind == FdKind::Copy && entry.fd == number;
        });
    };
    // Takes the lowest free number that no copy holds; the numbers skipped are free again on return.
    std::vector<UniqueFd> in_between;
    while (is_registered(fd.get())) {
        UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
        if (!moved) throw SystemError("moving a lock to another file descriptor", errno);
        in_between.push_back(std::exchange(fd, std::move(moved)));
    }
    return fd;
}

}  // namespace

ProcessOwnFd::ProcessOwnFd(UniqueFd fd) : fd_(std::move(fd)) {
    if (!fd_) return;
    close_in_children();
    const std::lock_guard guard(own_fds().mutex);
    fd_ = apart_from_copies(std::move(fd_));
    own_fds().entries.push_back({.fd = fd_.get()});
}

void ProcessOwnFd::reset() noexcept {
    if (!fd_) return;
    const std::lock_guard guard(own_fds().mutex);
    auto& entries = own_fds().entries;
    const auto found = std::ranges::find_if(
        entries, [this](const OwnFds::Entry& entry) { return entry.fd == fd_.get() && entry.kind != FdKind::Library; });
    const bool is_a_copy = found == entries.end() || found->kind == FdKind::Copy;
    if (found != entries.end()) entries.erase(found);
    if (is_a_copy) {
        static_cast<void>(fd_.release());  // in a child: already closed, and the number may be reused
        return;
    }
    ::flock(fd_.get(), LOCK_UN);  // a child that is being forked may still have a copy
    fd_.reset();
}

ForksWait::ForksWait() {
    close_in_children();
    own_fds().mutex.lock();
}

ForksWait::~ForksWait() { own_fds().mutex.unlock(); }

int open_process_own(const std::function<int()>& open) noexcept {
    try {
        close_in_children();
        const std::lock_guard guard(own_fds().mutex);
        auto& entries = own_fds().entries;
        entries.push_back({.kind = FdKind::Library});  // first, because it may throw
        const int fd = open();
        if (fd >= 0)
            entries.back().fd = fd;
        else
            entries.pop_back();
        return fd;
    } catch (const std::exception&) {
        errno = ENOMEM;
        return -1;
    }
}

int close_process_own(int fd) noexcept {
    const std::lock_guard guard(own_fds().mutex);
    std::erase_if(own_fds().entries,
                  [fd](const OwnFds::Entry& entry) { return entry.kind == FdKind::Library && entry.fd == fd; });
    return ::close(fd);
}

}  // namespace offramp
