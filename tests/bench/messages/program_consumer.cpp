#include "tests/bench/messages/program_consumer.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {
namespace {

Error ended_with(int status) {
    const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                : "exit code " + std::to_string(WEXITSTATUS(status));
    return {ErrorKind::Internal, "an offramp-consumer ended with " + how + ". See its log above"};
}

}  // namespace

ProgramConsumer::ProgramConsumer(const std::string& run_dir, const std::vector<std::string>& flags) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "offramp-consumer";
    std::vector<std::string> words{program, "--run-dir", run_dir, "--log-level", "warning"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw SystemError("fork", errno);
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is for figures
        ::execv(program.c_str(), arguments.data());
        ::_exit(127);
    }
}

ProgramConsumer::ProgramConsumer(ProgramConsumer&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

ProgramConsumer::~ProgramConsumer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void ProgramConsumer::require_alive() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
    pid_ = -1;
    throw ended_with(status);
}

std::uint64_t ProgramConsumer::cpu_ns() const {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void ProgramConsumer::finish() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw ended_with(status);
}

}  // namespace offramp
