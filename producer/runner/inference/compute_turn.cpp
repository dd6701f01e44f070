#include "producer/runner/inference/compute_turn.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"

namespace offramp {
namespace {

// A fraction of a large model's time per batch, at negligible CPU cost.
constexpr std::chrono::milliseconds kLookEvery{10};
constexpr mode_t kMode = 0600;

}  // namespace

ComputeTurn::ComputeTurn(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    // O_NONBLOCK, in case the name is a FIFO's; O_RDWR, without which NFS has no exclusive locks.
    UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode));
    if (!file)
        throw SystemError("opening the file of --turn, " + path_, errno, "Name a file that this user may create");
    file_ = ProcessOwnFd(std::move(file));
    // Check now, not after loading, that the file can be locked. Others that see this lock try again.
    if (lock(LOCK_SH | LOCK_NB)) lock(LOCK_UN);
}

std::optional<ComputeTurn::Held> ComputeTurn::take(const std::function<bool()>& is_wanted) {
    if (!file_ || lock(LOCK_EX | LOCK_NB)) return std::optional<Held>(std::in_place, *this);
    spdlog::info("everything is loaded; another program computes, and this one waits for its turn");
    const std::uint64_t began = now_ns();
    waiting_since_ns_ = began;
    bool is_ours = false;
    while (is_wanted() && !(is_ours = lock(LOCK_EX | LOCK_NB))) std::this_thread::sleep_for(kLookEvery);
    waited_ns_ = now_ns() - began;
    waiting_since_ns_ = 0;
    if (!is_ours) return std::nullopt;
    spdlog::info("its turn to compute came after {:.1f} s", waited_seconds());
    return std::optional<Held>(std::in_place, *this);
}

double ComputeTurn::waited_seconds() const {
    const std::uint64_t since = waiting_since_ns_;
    return static_cast<double>(waited_ns_ + (since != 0 ? now_ns() - since : 0)) / 1e9;
}

// False: another program has it.
bool ComputeTurn::lock(int operation) const {
    while (::flock(file_.get(), operation) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK) return false;
        throw SystemError("locking the file of --turn, " + path_, errno, "Name a file on a file system that has locks");
    }
    return true;
}

}  // namespace offramp
