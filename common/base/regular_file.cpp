#include "common/base/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

[[noreturn]] void refuse(const char* what, int errno_value) {
    throw Error(ErrorKind::NoInput, std::string(what) + ": " + std::strerror(errno_value));
}

}  // namespace

RegularFile::RegularFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    const int open_errno = errno;
    struct stat status {};
    // its type is more helpful than the error of open()
    if ((fd_ ? ::fstat(fd_.get(), &status) : ::stat(path.c_str(), &status)) == 0) {
        if (S_ISDIR(status.st_mode) && !fd_) refuse("a folder that cannot be listed", open_errno);
        if (S_ISDIR(status.st_mode)) throw Error(ErrorKind::BadInput, "a folder, not a file");
        if (!S_ISREG(status.st_mode)) throw Error(ErrorKind::BadInput, "not a regular file");
    }
    if (!fd_) refuse("cannot be opened", open_errno);
    size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t RegularFile::read_at(std::uint64_t offset, std::span<std::byte> to) const {
    std::size_t done = 0;
    while (done < to.size()) {
        const ssize_t got = ::pread(fd_.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno != EINTR) refuse("cannot be read", errno);
        if (got == 0) break;
        if (got > 0) done += static_cast<std::size_t>(got);
    }
    return done;
}

}  // namespace offramp
