#include "common/base/remedy.hpp"

#include <atomic>
#include <cerrno>
#include <future>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

std::atomic<RemedyText> text_of_process{library_remedy};

}  // namespace

std::string remedy(Remedy which) { return text_of_process.load()(which); }

void put_remedies(RemedyText text_of) noexcept { text_of_process = text_of; }

const char* library_remedy(Remedy which) noexcept {
    switch (which) {
        case Remedy::RunOnCpu:
            return "Run on the CPU (device \"cpu\")";
        case Remedy::SmallerBatches:
        case Remedy::SmallerHostBuffers:
            return "Use smaller batches";
        case Remedy::PageLocking:
            return "Check the memory limit of the cgroup (memory.max); confidential-computing machines forbid it";
        case Remedy::FewerSlabs:
            return "use fewer or smaller slabs";
        case Remedy::AnotherSpillFolder:
            return "spill to another folder";
        case Remedy::AnotherRunDirectory:
            return "give the run another directory";
        case Remedy::SweepMemory:
            return "the next run that begins removes what dead runs left";
        case Remedy::OpenToAnotherUser:
            return "Read the run as the user that it belongs to";
        case Remedy::OneProducer:
            return "Stop it, or give this run another directory";
        case Remedy::BeginRun:
            return "Begin a run there, or check the path";
        case Remedy::RunAgain:
            return "Start the run again";
        case Remedy::LessMemory:
            return "use less: smaller batches, or fewer slabs";
        case Remedy::AnotherLogFile:
            return "Log to another file";
        case Remedy::WritableOutput:
            return "Write results to a folder that this user may write to";
        case Remedy::AnotherOutput:
            return "write to another folder";
        case Remedy::Count:
            break;
    }
    return "";
}

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

namespace {

constexpr const char* kMoreProcesses =
    "Raise the limit of processes (ulimit -u), of the container or unit (pids.max, TasksMax=)";

}  // namespace

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

std::string command_to_convert(const std::string& file) {
    return "python3 -c \"import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in "
           "torch.load('" +
           file + "', map_location='cpu').items()}, 'weights.safetensors')\"";
}

}  // namespace offramp
