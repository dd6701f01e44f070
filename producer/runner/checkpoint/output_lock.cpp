#include "producer/runner/checkpoint/output_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/app/settings/processor_results.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr mode_t kMode = 0644;

[[noreturn]] void fail(const HeldFolder& folder) {
    throw SystemError("locking the output folder, " + folder.name() + "/" + kOutputLockName, errno,
                      "Give --output a folder that this user may write to", ErrorKind::CannotWrite);
}

[[noreturn]] void refuse(const HeldFolder& folder, const OutputHolder& holder) {
    throw Error(
        ErrorKind::RunInUse,
        "run " + holder.run + " (process " + holder.pid + ", or a program that it started) writes to " + folder.name(),
        "Wait until it ends, stop it (offramp stop), or give this run another --output");
}

UniqueFd open_lock(const HeldFolder& folder) {
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    UniqueFd file(::openat(folder.fd(), kOutputLockName, O_RDWR | O_CREAT | flags, kMode));
    // The launch script created the file as another user; it can only be read.
    if (!file && (errno == EACCES || errno == EROFS))
        file = UniqueFd(::openat(folder.fd(), kOutputLockName, O_RDONLY | flags));
    if (!file) fail(folder);
    struct stat opened {};
    if (::fstat(file.get(), &opened) != 0) fail(folder);
    if (!S_ISREG(opened.st_mode) || opened.st_nlink > 1)  // a planted file: its target must not be touched
        throw Error(ErrorKind::CannotWrite,
                    folder.name() + "/" + kOutputLockName +
                        " is not a run's lock: it is not a regular file, or it has several names",
                    "Remove it");
    return file;
}

bool has_its_name(const HeldFolder& folder, int file) {
    struct stat locked {};
    struct stat there {};
    return ::fstat(file, &locked) == 0 && ::fstatat(folder.fd(), kOutputLockName, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           locked.st_ino == there.st_ino;
}

}  // namespace

OutputLock::OutputLock(const std::string& folder, const std::string& run_id, OutputShare::Lock lock) : folder_(folder) {
    if (lock == OutputShare::Lock::Required) OutputShare(folder_, run_id, lock);
    while (!try_lock(run_id, lock)) {
    }
}

OutputLock::~OutputLock() {
    if (is_own_ && has_its_name(folder_, file_.get())) ::unlinkat(folder_.fd(), kOutputLockName, 0);
}

void OutputLock::require_in_place() const {
    folder_.require_in_place();
    require_lock_in_place(folder_, file_.get());
}

// Returns false if the previous holder removed the file meanwhile, or another run was quicker.
bool OutputLock::try_lock(const std::string& run_id, OutputShare::Lock lock) {
    UniqueFd file = open_lock(folder_);
    const bool is_launched = lock == OutputShare::Lock::Required;
    if (::flock(file.get(), is_launched ? LOCK_SH | LOCK_NB : LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) return false;
        const bool has_locks = errno == EWOULDBLOCK;
        if (!has_locks)
            spdlog::warn("the file system of {} has no locks: a second run into it would not be detected",
                         folder_.name());
        const OutputHolder holder = OutputHolder::read(file.get());
        if (has_locks && holder.run != run_id) refuse(folder_, holder);
        if (has_locks) ::flock(file.get(), LOCK_SH | LOCK_NB);
        file_ = ProcessOwnFd(std::move(file));
        return true;
    }
    if (!has_its_name(folder_, file.get())) return false;
    if (!is_launched) {
        const std::string holder = json_text(json{{"run", run_id}, {"pid", ::getpid()}});
        if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), holder.data(), holder.size(), 0) < 0) {
            ::unlinkat(folder_.fd(), kOutputLockName, 0);
            fail(folder_);
        }
        // Takes a shared lock, so that others may share it. Another run may take the lock in between.
        if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0) return false;
    } else if (const OutputHolder holder = OutputHolder::read(file.get()); holder.run != run_id) {
        refuse(folder_, holder);
    }
    is_own_ = !is_launched;
    file_ = ProcessOwnFd(std::move(file));
    return true;
}

ResultFolders::ResultFolders(const ResultSettings& config, const std::string& write_path) {
    const std::vector<std::string> names = config.processors();
    if (!config.samples_folder.empty()) await(config.samples_folder, "the output folder");
    for (const std::string& name : names)
        for (const std::string& folder : {config.output, config.samples_folder})
            if ((names.size() > 1 || !config.group.empty()) && !folder.empty())
                await(config.results_folder(folder, name), "the folder of processor " + name + ",");
    if (config.has_processor("write")) await(write_path, "the folder of --write-path,");
}

void ResultFolders::await(const std::string& folder, const std::string& what) { awaited_.emplace_back(folder, what); }

void ResultFolders::require_in_place() {
    for (const HeldFolder& folder : held_) folder.require_in_place();
    std::erase_if(awaited_, [this](const auto& each) {
        std::error_code unknown;
        if (!std::filesystem::is_directory(each.first, unknown)) return false;
        held_.emplace_back(each.first, each.second);
        return true;
    });
}

}  // namespace offramp
