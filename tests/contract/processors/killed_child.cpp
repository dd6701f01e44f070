#include "tests/contract/processors/killed_child.hpp"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace offramp::test {
namespace {

constexpr int kNoTrace = 77;

// Does not return: the child ends without the parent's exit handlers.
[[noreturn]] void run_child(const std::function<void()>& work) {
    int result = 0;
    try {
        work();
    } catch (...) {
        result = 1;
    }
    ::_exit(result);
}

int wait_for(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, __WALL) < 0)
        if (errno != EINTR) throw std::runtime_error("waitpid");
    return status;
}

Outcome outcome_of(int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return Outcome::Killed;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Outcome::Finished : Outcome::Failed;
}

}  // namespace

std::optional<Outcome> killed_at_syscall(int n, const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
        if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kNoTrace);
        std::raise(SIGSTOP);
        run_child(work);
    }
    int status = wait_for(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTrace) return std::nullopt;
    for (int seen = 0; WIFSTOPPED(status); ++seen) {
        if (seen == n) {
            ::kill(child, SIGKILL);
            return outcome_of(wait_for(child));
        }
        if (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) throw std::runtime_error("ptrace");
        status = wait_for(child);
    }
    return outcome_of(status);
}

Outcome killed_at_call(int n, const std::function<void(const std::function<void()>&)>& work) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
        int left = n;
        run_child([&] {
            work([&] {
                if (--left == 0) ::kill(::getpid(), SIGKILL);
            });
        });
    }
    return outcome_of(wait_for(child));
}

}  // namespace offramp::test
