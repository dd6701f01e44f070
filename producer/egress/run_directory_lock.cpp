#include "producer/egress/run_directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"
#include "common/base/utf8.hpp"
#include "common/shm/run_files.hpp"
#include "common/transport/endpoint.hpp"
#include "producer/recovery/run_recovery.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kFirstEpoch = 1;

Endpoint endpoint_of(const RunDirectoryLock::Options& options, const std::string& run_dir) {
    const auto pid = static_cast<std::uint64_t>(::getpid());
    if (options.start == RunStart::Recovered) {
        Endpoint endpoint = RunRecovery::find(run_dir, options.run_id);
        if (options.check_recovered) options.check_recovered(run_dir);
        endpoint.producer_pid = pid;
        return endpoint;
    }
    RunNames names{options.run_id, RunNames::random_nonce()};
    RunNames::check_run_id(names.run_id);
    return {.run_dir = run_dir, .names = names, .producer_pid = pid, .epoch = kFirstEpoch};
}

// The directory may have belonged to another run: a program's, which leaves more files than this one, or a launcher's,
// which has locked it. The new run removes the reports of the old one. In any other folder those files are the user's.
void require_a_runs_own(const std::string& folder) {
    struct stat lock {};
    for (const char* name : run_files::kLocks)
        if (::lstat((folder + "/" + name).c_str(), &lock) == 0 && S_ISREG(lock.st_mode) && lock.st_uid == ::geteuid())
            return;
    std::error_code problem;
    const std::filesystem::directory_iterator entries(folder, problem);
    if (problem) throw SystemError("listing the run directory " + folder, problem.value(), "", ErrorKind::CannotWrite);
    for (const auto& entry : entries)
        if (entry.path().filename() != run_files::kOutput)
            throw ConfigError(folder + " is not a run's directory: it holds other things, such as '" +
                                  printable(entry.path().filename().string()) + "'",
                              "Give a folder that does not exist yet, such as " + folder +
                                  "/run, an empty one, or one of an earlier run");
}

}  // namespace

RunDirectoryLock::RunDirectoryLock(const Options& options)
    : start_(options.start),
      readable_by_group_(options.readable_by_group),
      directory_(options.run_dir, readable_by_group_, start_),
      endpoint_(endpoint_of(options, directory_.path())),
      last_sweep_{endpoint_.names, !is_recovered()},
      lock_(RunLock::hold(endpoint_.names, !is_recovered(), readable_by_group_)) {}

void RunDirectoryLock::serve_groups(const std::vector<std::string>& names) {
    endpoint_.groups = names;
    if (names.empty()) return;
    for (const std::string& name : names) Endpoint::check_run_dir(Endpoint::group_dir(folder(), name));
    const std::string all = folder() + "/" + run_files::kGroups;
    std::error_code problem;
    const bool made = std::filesystem::create_directory(all, problem);
    if (problem) throw SystemError("making " + all, problem.value(), "", ErrorKind::CannotWrite);
    if ((made || readable_by_group_) && ::chmod(all.c_str(), readable_by_group_ ? 0710 : 0700) != 0)
        throw SystemError("setting the mode of " + all, errno);
    for (const std::string& name : names) {
        const std::string& folder =
            groups_.emplace_back(Endpoint::group_dir(this->folder(), name), readable_by_group_, start_).path();
        // Consumers read these of the whole run.
        for (const std::string file : {run_files::kStatus, run_files::kListedRows, run_files::kPictureStamps}) {
            const std::string link = folder + "/" + file;
            const std::string up = file.find('/') == std::string::npos ? "../../" : "../../../";
            if (::symlink((up + file).c_str(), link.c_str()) != 0 && errno != EEXIST)
                throw SystemError("making " + link, errno, "", ErrorKind::CannotWrite);
        }
    }
}

void RunDirectoryLock::open_to_consumers() const {
    for (const std::string& group : endpoint_.groups) endpoint_.of_group(group).publish();
    endpoint_.publish();
}

void RunDirectoryLock::close_to_consumers() const {
    ::unlink(endpoint_.file().c_str());
    for (const std::string& group : endpoint_.groups) ::unlink(endpoint_.of_group(group).file().c_str());
}

RunDirectory::RunDirectory(const std::string& path, bool group_may_enter, RunStart start)
    : start_(start), path_(std::filesystem::absolute(path).lexically_normal().string()) {
    Endpoint::check_run_dir(path_);
    std::error_code problem;
    const bool made = std::filesystem::create_directories(path_, problem);
    struct stat found {};
    if (problem || ::stat(path_.c_str(), &found) != 0)
        throw SystemError("making the run directory " + path_, problem ? problem.value() : errno,
                          "Give the run a directory that this user may write to", ErrorKind::CannotWrite);
    if (found.st_uid != ::geteuid())
        throw Error(ErrorKind::NotPermitted,
                    "the run directory " + path_ + " belongs to user " + std::to_string(found.st_uid),
                    "Give the run a directory that you own");
    require_a_runs_own(path_);
    const mode_t mode = made ? 0700 : found.st_mode & 07777;
    if ((made || group_may_enter) && ::chmod(path_.c_str(), group_may_enter ? mode | 0010 : mode) != 0)
        throw SystemError("setting the mode of " + path_, errno);
    const std::string live = path_ + "/" + run_files::kLive;
    const bool new_live = std::filesystem::create_directory(live, problem);
    if (problem) throw SystemError("making " + live, problem.value(), "", ErrorKind::CannotWrite);
    if ((new_live || group_may_enter) && ::chmod(live.c_str(), group_may_enter ? 0710 : 0700) != 0)
        throw SystemError("setting the mode of " + live, errno);
    const std::string lock_path = path_ + "/" + run_files::kProducerLock;
    lock_ = ProcessOwnFd(UniqueFd(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)));
    if (!lock_) throw SystemError("opening " + lock_path, errno, "", ErrorKind::CannotWrite);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
        throw Error(ErrorKind::RunInUse, "a producer is running in " + path_, remedy(Remedy::OneProducer));
    if (start == RunStart::Recovered) return;
    for (const char* name : run_files::kOfAProducer) std::filesystem::remove(path_ + "/" + name, problem);
    std::filesystem::remove_all(path_ + "/" + run_files::kSpill, problem);
    for (const auto& group : std::filesystem::directory_iterator(path_ + "/" + run_files::kGroups, problem))
        std::filesystem::remove(group.path() / run_files::kEndpoint, problem);
}

void RunDirectory::begin() const {
    if (start_ == RunStart::Recovered) return;
    std::error_code problem;
    for (const char* name : run_files::kAccount) std::filesystem::remove(path_ + "/" + name, problem);
}

}  // namespace offramp
