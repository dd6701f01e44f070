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

// A number is listed here while its object has it open: both change under the mutex, which is held through a fork. So a
// child never closes a number that was given to something else meanwhile. There, the number may then be given to
// something else while the object's copy still has it: it stays here, as a copy's, until that copy is gone.
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

// Never destroyed: objects of static life may outlive it.
OwnFds& own_fds() {
    static OwnFds& made = *new OwnFds;
    return made;
}

void lock_before_fork() { own_fds().mutex.lock(); }
void unlock_behind_fork() { own_fds().mutex.unlock(); }
// No memory is taken or freed here: another thread may have held the allocator's locks.
void close_in_the_child() {
    auto& entries = own_fds().entries;
    for (OwnFds::Entry& entry : entries) {
        if (entry.kind != FdKind::Copy) ::close(entry.fd);
        if (entry.kind == FdKind::Object) entry.kind = FdKind::Copy;
    }
    std::erase_if(entries, [](const OwnFds::Entry& entry) { return entry.kind == FdKind::Library; });
    own_fds().mutex.unlock();
}

// Once a process.
void close_in_children() {
    static const int problem = ::pthread_atfork(lock_before_fork, unlock_behind_fork, close_in_the_child);
    if (problem != 0) throw SystemError("registering a fork handler", problem);
}

// A number that no copy has. What is locked stays so: the lock is the open file's, whichever number it has. Under the
// mutex.
UniqueFd apart_from_copies(UniqueFd fd) {
    const auto is_registered = [](int number) {
        return std::ranges::any_of(own_fds().entries, [&](const OwnFds::Entry& entry) {
            return entry.kind == FdKind::Copy && entry.fd == number;
        });
    };
    // The lowest that is free and not borne; those in between are free again when this returns.
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
        static_cast<void>(fd_.release());  // in a child: closed, and its number may be another's
        return;
    }
    ::flock(fd_.get(), LOCK_UN);  // a child that is just being made has its copy still
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
        entries.push_back({.kind = FdKind::Library});  // before there is anything to lose
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
