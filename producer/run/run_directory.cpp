#include "producer/run/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/transport/endpoint.hpp"

namespace offramp {

RunDirectory::RunDirectory(const std::string& path, bool group_may_enter, Former former)
    : path_(std::filesystem::absolute(path).lexically_normal().string()) {
    Endpoint::check_run_dir(path_);
    std::error_code problem;
    std::filesystem::create_directories(path_, problem);
    struct stat found {};
    if (problem || ::stat(path_.c_str(), &found) != 0)
        throw SystemError("making the run directory " + path_, problem ? problem.value() : errno,
                          "Give --run-dir a folder that can be written", ExitCode::CannotWrite);
    if (found.st_uid != ::geteuid())
        throw Error(ExitCode::NotPermitted,
                    "the run directory " + path_ + " belongs to user " + std::to_string(found.st_uid),
                    "Give --run-dir a folder of your own");
    if (::chmod(path_.c_str(), group_may_enter ? 0710 : 0700) != 0)
        throw SystemError("setting the mode of " + path_, errno);
    const std::string lock_path = path_ + "/producer.lock";
    lock_ = UniqueFd(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_) throw SystemError("opening " + lock_path, errno, "", ExitCode::CannotWrite);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
        throw Error(ExitCode::RunInUse, "a producer is running in " + path_,
                    "Stop it (offramp stop), or give this run another --run-dir");
    if (former == Former::Kept) return;
    for (const char* name : {"endpoint", "producer-settings.toml", "status.json", "producer-summary.json", "dropped.jsonl"})
        std::filesystem::remove(path_ + "/" + name, problem);
    std::filesystem::remove_all(path_ + "/spill", problem);
}

}  // namespace offramp
