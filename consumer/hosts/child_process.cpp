#include "consumer/hosts/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/scarcity.hpp"

extern char** environ;

namespace offramp {
namespace {

constexpr std::chrono::seconds kPatience{5};  // how long a program may take to end after a request

std::string how_it_ended(int status) {
    if (WIFSIGNALED(status)) return std::string("by SIG") + ::sigabbrev_np(WTERMSIG(status));
    return "with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

ChildProcess::ChildProcess(const std::string& command) : command_("exec " + command) {
    // Sockets, because a write to a closed socket can be detected without a signal.
    std::array<int, 2> in{}, out{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0)
        throw SystemError("making a channel to " + command, errno);
    input_ = UniqueFd(in[0]);
    const UniqueFd their_input(in[1]);
    if (::pipe2(out.data(), O_CLOEXEC) != 0) throw SystemError("making a channel from " + command, errno);
    output_ = UniqueFd(out[0]);
    const UniqueFd their_output(out[1]);

    const pid_t self = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw SystemError("starting " + command, errno, way_to_start(errno));
    if (pid_ > 0) {
        ::setpgid(pid_, pid_);  // also here, so that the group exists before any kill
        return;
    }
    // After a fork in a process with threads, only async-signal-safe calls are allowed. The child dies with its
    // consumer in any case. It has its own group, so that Ctrl-C reaches it only through its consumer's end, and its
    // own children end with it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(127);
    ::setpgid(0, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(their_input.get(), STDIN_FILENO);
    ::dup2(their_output.get(), STDOUT_FILENO);
    ::execle("/bin/sh", "sh", "-c", command_.c_str(), nullptr, environ);
    ::_exit(127);
}

ChildProcess::~ChildProcess() {
    if (pid_ > 0) end();
}

bool ChildProcess::write_line(std::string_view line) {
    std::string text(line);
    text += '\n';
    for (std::string_view left = text; !left.empty();) {
        const ssize_t sent = ::send(input_.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        left.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool ChildProcess::read_line(std::string& line) {
    for (std::size_t searched = 0;;) {
        if (const std::size_t end = buffer_.find('\n', searched); end != std::string::npos) {
            line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            return true;
        }
        if (buffer_.size() > kLongestLine) return false;
        searched = buffer_.size();
        std::array<char, 65536> piece;
        const ssize_t got = ::read(output_.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        buffer_.append(piece.data(), static_cast<std::size_t>(got));
    }
}

std::string ChildProcess::end() {
    input_ = UniqueFd();
    output_ = UniqueFd();
    int status = 0;
    try {
        if (const auto watched = watch_process(static_cast<std::uint64_t>(pid_)))
            wait_readable(std::array{watched->died.get()}, kPatience);
    } catch (const Error&) {  // its end cannot be awaited: kill it immediately
    }
    ::kill(-pid_, SIGKILL);  // also kills its children; until it is reaped, no other group can have this number
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return how_it_ended(status);
}

}  // namespace offramp
