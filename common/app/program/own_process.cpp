#include "common/app/program/own_process.hpp"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/tracing/live_trace.hpp"

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

namespace {

RangeFile& trace_file() {
    static RangeFile file;
    return file;
}

void write(const RangeFile& to, const RecordedRanges& kept) {
    std::error_code ignored;
    std::filesystem::create_directories(to.folder, ignored);
    write_range_file(to, kept);
    if (kept.not_kept > 0) spdlog::warn("{} time ranges were not recorded in {}", kept.not_kept, to.path());
}

}  // namespace

void start_recording(const std::string& folder, std::string_view process, std::string_view strategy) {
    trace_file() = {.folder = folder, .process = std::string(process), .strategy = std::string(strategy)};
    keep_ranges(process == "producer" ? "main" : process);
}

void save_recording() noexcept {
    if (trace_file().folder.empty()) return;
    try {
        if (const std::optional<RecordedRanges> kept = take_ranges()) write(trace_file(), *kept);
    } catch (const std::exception& problem) {
        spdlog::warn("the trace is lost: {}", problem.what());
    }
}

}  // namespace offramp
