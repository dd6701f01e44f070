#include "producer/runner/checkpoint/output_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr mode_t kMode = 0644;

[[noreturn]] void fail(const std::string& path) {
    throw SystemError("locking the output folder, " + path, errno, "Give --output a folder that this user may write to",
                      ErrorKind::CannotWrite);
}

json read_holder(int fd) {
    std::array<char, 512> text{};
    const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
    json holder = parse_json_or_discard({text.data(), static_cast<std::size_t>(got > 0 ? got : 0)});
    return holder.is_object() ? holder : json::object();
}

[[noreturn]] void refuse(const std::string& folder, const json& holder) {
    const auto text_of = [&holder](const char* key) {
        const json value = holder.value(key, json("?"));
        return value.is_string() ? value.get<std::string>() : json_text(value);
    };
    throw Error(
        ErrorKind::RunInUse,
        "run " + text_of("run") + " (process " + text_of("pid") + ", or a program that it started) writes to " + folder,
        "Wait for its end, end it (offramp stop), or give this run another --output");
}

}  // namespace

OutputLock::OutputLock(const std::string& folder, const std::string& run_id) : path_(folder + "/" + kName) {
    while (!try_lock(folder, run_id)) {
    }
}

OutputLock::~OutputLock() {
    if (file_) ::unlink(path_.c_str());
}

// False: the file was removed by its previous holder in between.
bool OutputLock::try_lock(const std::string& folder, const std::string& run_id) {
    UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode));
    if (!file) {
        // The launch script's, made as another user: it can be read.
        if (errno == EACCES || errno == EROFS)
            file = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (!file) fail(path_);
    }
    struct stat opened {};
    if (::fstat(file.get(), &opened) != 0) fail(path_);
    if (!S_ISREG(opened.st_mode) || opened.st_nlink > 1)  // laid there by somebody: what it leads to is not ours
        throw Error(ErrorKind::CannotWrite,
                    path_ + " is not a lock of ours: it is not an ordinary file, or one of several names", "Remove it");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) return false;
        if (errno != EWOULDBLOCK) {
            spdlog::warn("{} has no locks: a second run into it would not be noticed", folder);
            return true;
        }
        const json holder = read_holder(file.get());
        if (holder.value("run", json()) != json(run_id)) refuse(folder, holder);
        return true;
    }
    struct stat locked {};
    struct stat there {};
    if (::fstat(file.get(), &locked) != 0 || ::stat(path_.c_str(), &there) != 0 || locked.st_ino != there.st_ino)
        return false;
    const std::string holder = json_text(json{{"run", run_id}, {"pid", ::getpid()}});
    if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), holder.data(), holder.size(), 0) < 0) {
        ::unlink(path_.c_str());
        fail(path_);
    }
    file_ = std::move(file);
    return true;
}

}  // namespace offramp
