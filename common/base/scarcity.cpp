#include "common/base/scarcity.hpp"

#include <cerrno>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"

namespace offramp {
namespace {

constexpr const char* kMoreProcesses =
    "Raise the limit of processes (ulimit -u), of the container or unit (pids.max, TasksMax=)";

}  // namespace

std::string way_to_write(int errno_value, const std::string& otherwise) {
    switch (errno_value) {
        case ENOSPC:
            return "Free space on that file system";
        case EDQUOT:
            return "The quota there is used up: remove files, or have it raised";
        case EFBIG:
            return "A limit on the size of files is reached: raise it (ulimit -f, LimitFSIZE= of a systemd unit)";
        default:
            return otherwise;
    }
}

std::exception_ptr with_limits_named(std::exception_ptr error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::system_error& problem) {
        if (problem.code() != std::errc::resource_unavailable_try_again) return error;
        return std::make_exception_ptr(
            Error(ErrorKind::System, "the system cannot start another thread (" + std::string(problem.what()) + ")",
                  std::string(kMoreProcesses) + ", or of memory (ulimit -v)"));
    } catch (const std::bad_alloc&) {
        return std::make_exception_ptr(
            Error(ErrorKind::System, "the system has no memory left for this process",
                  "Raise the limit (ulimit -v, memory.max of a container), or " + remedy(Remedy::LessMemory)));
    } catch (...) {
        return error;
    }
}

std::string way_to_start(int problem, const std::string& otherwise) {
    return problem == EAGAIN ? kMoreProcesses : otherwise;
}

void require_threads(unsigned count) {
    std::promise<void> over;
    const std::shared_future<void> wait = over.get_future().share();
    std::vector<std::thread> threads;
    std::exception_ptr problem;
    try {
        for (unsigned number = 0; number < count; ++number) threads.emplace_back([wait] { wait.wait(); });
    } catch (...) {
        problem = std::current_exception();
    }
    over.set_value();
    for (std::thread& thread : threads) thread.join();
    if (problem) std::rethrow_exception(with_limits_named(problem));
}

}  // namespace offramp
