#include "consumer/sinks/files/stream_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include "common/base/error.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {
namespace {

Error no_reader(const std::string& path) {
    return {ErrorKind::SinkUnavailable, "the FIFO " + path + " has no reader", "Start the program that reads it first"};
}

// Keeps the SIGPIPE of a FIFO without reader from ending the process: blocks it for the call, and discards it if it
// arrived.
class SigpipeShield {
  public:
    SigpipeShield() {
        ::sigemptyset(&sigpipe_);
        ::sigaddset(&sigpipe_, SIGPIPE);
        ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
    }
    SigpipeShield(const SigpipeShield&) = delete;
    SigpipeShield& operator=(const SigpipeShield&) = delete;
    ~SigpipeShield() {
        const timespec at_once{};
        while (came_ && ::sigtimedwait(&sigpipe_, nullptr, &at_once) < 0 && errno == EINTR) {
        }
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    void note_broken_pipe() { came_ = true; }

  private:
    sigset_t sigpipe_{};
    sigset_t before_{};
    bool came_ = false;
};

}  // namespace

StreamFile::StreamFile(std::string path) : path_(std::move(path)) {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0) throw write_error(path_, errno);
    fifo_ = S_ISFIFO(status.st_mode);
    if (!fifo_ && !S_ISCHR(status.st_mode))
        throw ConfigError("'" + path_ + "' is neither a folder, a FIFO nor a character device",
                          "Several consumers would overwrite one another there: give a folder, a FIFO or /dev/null");
    // A blocking open of a FIFO without a reader would wait for ever; a non-blocking one fails.
    file_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | (fifo_ ? O_NONBLOCK : 0)));
    if (!file_ && fifo_ && errno == ENXIO) throw no_reader(path_);
    if (!file_) throw write_error(path_, errno);
    if (fifo_ && ::fcntl(file_.get(), F_SETFL, O_WRONLY) != 0) throw write_error(path_, errno);
}

void StreamFile::write(std::span<const std::byte> bytes) {
    SigpipeShield shield;
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            if (errno != EPIPE) throw write_error(path_, errno);
            shield.note_broken_pipe();
            throw no_reader(path_);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

}  // namespace offramp
