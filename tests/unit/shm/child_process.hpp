#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace offramp::support {

// Owns a forked child that runs a function and exits with its return code. The parent can wait until the
// child has reached a point (report()); the destructor kills a child that is still running.
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
        reports_ = ends[0];
    }
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            wait();
        }
        ::close(reports_);
    }

    pid_t pid() const { return pid_; }
    // Called by the child.
    static void report(int fd) { [[maybe_unused]] const auto written = ::write(fd, "x", 1); }
    // Waits; false if the child ended without reporting.
    bool reported() const {
        char byte = 0;
        return ::read(reports_, &byte, 1) == 1;
    }
    void kill() const { ::kill(pid_, SIGKILL); }
    // The status of wait(2).
    int wait() {
        int status = 0;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return status;
    }

  private:
    pid_t pid_ = -1;
    int reports_ = -1;
};

// Blocks a child until it is killed.
[[noreturn]] inline void wait_to_be_killed() {
    while (true) ::pause();
}

}  // namespace offramp::support
