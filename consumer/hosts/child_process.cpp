#include "consumer/hosts/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/error.hpp"

extern char** environ;

namespace offramp {
namespace {

constexpr int kPatienceMs = 5000;  // of a program that was asked to end

struct SpawnActions {
    posix_spawn_file_actions_t actions{};
    posix_spawnattr_t attributes{};
    SpawnActions() {
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawnattr_init(&attributes);
    }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() {
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
    }
};

std::string how_it_ended(int status) {
    if (WIFSIGNALED(status)) return std::string("by SIG") + ::sigabbrev_np(WTERMSIG(status));
    return "with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

ChildProcess::ChildProcess(const std::string& command) : command_("exec " + command) {
    // Sockets, since a write to one whose other end is closed can be told without a signal.
    std::array<int, 2> in{}, out{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0)
        throw SystemError("making a channel to " + command, errno);
    input_ = UniqueFd(in[0]);
    const UniqueFd their_input(in[1]);
    if (::pipe2(out.data(), O_CLOEXEC) != 0) throw SystemError("making a channel from " + command, errno);
    output_ = UniqueFd(out[0]);
    const UniqueFd their_output(out[1]);

    SpawnActions with;
    ::posix_spawn_file_actions_adddup2(&with.actions, their_input.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&with.actions, their_output.get(), STDOUT_FILENO);
    // Signals as a program expects them; its own group, so that Ctrl-C reaches it by its consumer's end alone.
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&with.attributes, &none);
    ::posix_spawnattr_setsigdefault(&with.attributes, &all);
    ::posix_spawnattr_setpgroup(&with.attributes, 0);
    ::posix_spawnattr_setflags(&with.attributes,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::array<char*, 4> words{const_cast<char*>("sh"), const_cast<char*>("-c"), command_.data(), nullptr};
    const int problem = ::posix_spawn(&pid_, "/bin/sh", &with.actions, &with.attributes, words.data(), environ);
    if (problem != 0) throw SystemError("starting " + command, problem);
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
    while (true) {
        if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
            line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            return true;
        }
        if (buffer_.size() > kLongestLine) return false;
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
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd waited{pidfd.get(), POLLIN, 0};
    if (!pidfd || ::poll(&waited, 1, kPatienceMs) != 1) ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return how_it_ended(status);
}

}  // namespace offramp
