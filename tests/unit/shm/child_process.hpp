#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace offramp::support {

// Owns a forked child that runs a function and then ends with the code it returns. The parent can wait for
// the child's word that it has come to a point (say()); a child that is not waited for is killed.
class ChildProcess {
  public:
    template <class Body>
    explicit ChildProcess(Body body) {
        int ends[2];
        if (::pipe(ends) != 0) std::abort();
        pid_ = ::fork();
        if (pid_ == 0) {
            ::close(ends[0]);
            const rlimit no_core{0, 0};
            ::setrlimit(RLIMIT_CORE, &no_core);
            for (const int fault : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(fault, SIG_DFL);  // a sanitizer's handlers
            ::_exit(body(ends[1]));
        }
        ::close(ends[1]);
        words_ = ends[0];
    }
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            wait();
        }
        ::close(words_);
    }

    pid_t pid() const { return pid_; }
    // For the child.
    static void say(int fd) { [[maybe_unused]] const auto written = ::write(fd, "x", 1); }
    // False when the child ended without its word.
    bool heard() const {
        char word = 0;
        return ::read(words_, &word, 1) == 1;
    }
    void kill() const { ::kill(pid_, SIGKILL); }
    // The status as wait(2) gives it.
    int wait() {
        int status = 0;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return status;
    }

  private:
    pid_t pid_ = -1;
    int words_ = -1;
};

// Blocks a child until it is killed.
[[noreturn]] inline void wait_to_be_killed() {
    while (true) ::pause();
}

}  // namespace offramp::support
