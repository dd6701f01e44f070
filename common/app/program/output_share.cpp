#include "common/app/program/output_share.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/held_folder.hpp"

namespace offramp {
namespace {

// A value of a JSON object whose values contain no quotes: a run's id, a number. "?" if the key is missing.
std::string value_of(std::string_view text, std::string_view key) {
    const std::size_t found = text.find('"' + std::string(key) + '"');
    if (found == std::string_view::npos) return "?";
    text.remove_prefix(found + key.size() + 2);
    text.remove_prefix(std::min(text.find_first_not_of(": "), text.size()));
    const bool is_text = text.starts_with('"');
    if (is_text) text.remove_prefix(1);
    return std::string(text.substr(0, text.find_first_of(is_text ? "\"" : ",} ")));
}

bool lock_shared(int fd) {
    int result = 0;
    do result = ::flock(fd, LOCK_SH | LOCK_NB);
    while (result != 0 && errno == EINTR);
    return result == 0 || errno != EWOULDBLOCK;  // a file system without locks is accepted
}

}  // namespace

OutputHolder OutputHolder::read(int fd) {
    std::array<char, 512> text{};
    const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
    const std::string_view text_found(text.data(), static_cast<std::size_t>(got > 0 ? got : 0));
    return {.run = value_of(text_found, "run"), .pid = value_of(text_found, "pid")};
}

OutputShare::OutputShare(const HeldFolder& output, const std::string& run_id, Lock lock) {
    UniqueFd file(::openat(output.fd(), kOutputLockName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat found {};
    const bool is_there = file && ::fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode);
    const bool has_share = is_there && lock_shared(file.get());
    // Read after locking: an exclusive holder writes another run's id to the file.
    const std::string run = is_there ? OutputHolder::read(file.get()).run : std::string();
    if (is_there && (run_id.empty() || run == run_id)) {
        if (!has_share)
            throw Error(ErrorKind::RunInUse, "another run is starting to write to " + output.name(),
                        "Wait until it ends, or give this run another --output");
        file_ = ProcessOwnFd(std::move(file));
        return;
    }
    if (lock == Lock::Optional) return;
    fail_moved("the output folder", output.name(),
               is_there ? "the lock there belongs to run " + run : "the lock of run " + run_id + " is missing");
}

void require_lock_in_place(const HeldFolder& output, int lock) {
    struct stat held {};
    struct stat there {};
    if (::fstat(lock, &held) == 0 && ::fstatat(output.fd(), kOutputLockName, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        held.st_dev == there.st_dev && held.st_ino == there.st_ino)
        return;
    throw Error(ErrorKind::CannotWrite,
                output.name() + "/" + kOutputLockName + " was removed or replaced while this run wrote to that folder",
                "Do not remove it during a run; continue with --resume");
}

std::string shard_place(const std::string& output, std::uint64_t index) {
    return output + "/" + std::string(kReservedPrefix) + "shards/" + std::to_string(index);
}

std::string to_do_shard_again(const std::string& output, std::uint64_t index) {
    const std::string number = std::to_string(index);
    return "Remove " + shard_place(output, index) + " and, in the job's folder, done/" + number +
           ".json; then run shard " + number + " again";
}

}  // namespace offramp
