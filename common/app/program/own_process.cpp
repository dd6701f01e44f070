#include "common/app/program/own_process.hpp"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>

#include "common/base/error.hpp"

namespace offramp {

EndSignals::EndSignals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (const int number : {SIGPIPE, SIGXFSZ}) ::sigaction(number, &ignore, nullptr);

    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    if (const int problem = ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr); problem != 0)
        throw SystemError("blocking SIGTERM and SIGINT", problem);
    fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) throw SystemError("signalfd for SIGTERM and SIGINT", errno);
}

void raise_descriptor_limit() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

void keep_freed_memory() noexcept {
    ::mallopt(M_MMAP_MAX, 0);  // the threshold is at most 32 MiB, and outputs are larger
    ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

std::string data_folder() {
    std::error_code failure;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
    if (failure) throw SystemError("reading the link /proc/self/exe", failure.value(), "Is /proc mounted?");
    return (program.parent_path().parent_path() / "share").string();
}

}  // namespace offramp
