#include "common/base/held_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"

namespace offramp {
namespace {

// A user's function may change the working folder.
std::string absolute(const std::string& folder) {
    std::error_code unknown;
    const std::filesystem::path path = std::filesystem::absolute(folder, unknown);
    return unknown ? folder : path.string();
}

}  // namespace

void fail_moved(const std::string& what, const std::string& folder, const std::string& why) {
    throw Error(ErrorKind::CannotWrite,
                what + " " + folder + " was moved, unmounted or replaced while this run wrote to it (" + why +
                    "): no further results are recorded",
                "Put the folder back, or mount it again. " + remedy(Remedy::RunAgain));
}

HeldFolder::HeldFolder(std::string folder, std::string what)
    : name_(std::move(folder)),
      absolute_(absolute(name_)),
      what_(std::move(what)),
      fd_(::open(name_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    struct stat found {};
    if (!fd_ || ::fstat(fd_.get(), &found) != 0)
        throw SystemError("opening " + what_ + " " + name_, errno,
                          way_to_write(errno, "Give an existing folder that this user may write to"),
                          ErrorKind::CannotWrite);
    identity_ = {found.st_dev, found.st_ino};
}

bool HeldFolder::has(const std::string& path) const {
    return path.starts_with(name_) && (path.size() == name_.size() || path[name_.size()] == '/');
}

std::string HeldFolder::through(const std::string& path) const {
    expect(has(path), "a path is resolved from the folder that it begins with");
    return "/proc/self/fd/" + std::to_string(fd_.get()) + path.substr(name_.size());
}

void HeldFolder::require_in_place() const {
    struct stat there {};
    const bool is_found = ::stat(absolute_.c_str(), &there) == 0;
    if (is_found && FileIdentity{there.st_dev, there.st_ino} == identity_) return;
    const std::string why = is_found ? "another folder has its name" : std::strerror(errno);
    fail_moved(what_, name_, why);
}

}  // namespace offramp
