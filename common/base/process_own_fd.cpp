#include "common/base/process_own_fd.hpp"

#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

struct OwnFds {
    std::mutex mutex;  // held through a fork, so that the child finds the list whole
    std::vector<int> fds;
};

// Never destroyed: objects of static life may outlive it.
OwnFds& own_fds() {
    static OwnFds& made = *new OwnFds;
    return made;
}

void lock_before_fork() { own_fds().mutex.lock(); }
void unlock_behind_fork() { own_fds().mutex.unlock(); }
// No memory is freed here: another thread may have held the allocator's locks.
void close_in_the_child() {
    for (const int fd : own_fds().fds) ::close(fd);
    own_fds().fds.clear();
    own_fds().mutex.unlock();
}

}  // namespace

ProcessOwnFd::ProcessOwnFd(UniqueFd fd) : fd_(std::move(fd)) {
    if (!fd_) return;
    static const int problem = ::pthread_atfork(lock_before_fork, unlock_behind_fork, close_in_the_child);
    if (problem != 0) throw SystemError("minding forks of this process", problem);
    const std::lock_guard guard(own_fds().mutex);
    own_fds().fds.push_back(fd_.get());
}

void ProcessOwnFd::reset() noexcept {
    if (!fd_) return;
    const std::lock_guard guard(own_fds().mutex);
    const auto found = std::ranges::find(own_fds().fds, fd_.get());
    if (found == own_fds().fds.end()) {
        static_cast<void>(fd_.release());  // in a child: closed, and its number may be another's
        return;
    }
    own_fds().fds.erase(found);
    ::flock(fd_.get(), LOCK_UN);  // a child that is just being made has its copy still
    fd_.reset();
}

}  // namespace offramp
