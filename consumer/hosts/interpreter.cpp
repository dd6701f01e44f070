#include "consumer/hosts/interpreter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "common/app/program/data_folder.hpp"
#include "common/app/settings/processor_spec.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libofframp_worker.so";

// Beside this program: ../lib, where the build and an installation have it.
std::string worker_library() {
    for (const char* const folder : {"/../../lib/", "/../lib/"})
        if (const fs::path found = data_folder() + folder + kLibrary; fs::exists(found)) return fs::canonical(found);
    throw ConfigError(std::string(kLibrary) + " is not beside this program",
                      "Build or install it: it runs processors in Python");
}

void put_in_front(const char* variable, const std::string& folder) {
    const char* const before = std::getenv(variable);
    ::setenv(variable, (before == nullptr || *before == '\0' ? folder : folder + ":" + before).c_str(), 1);
}

// The interpreter's package has its own folder, which child programs of the user's code also get; or, in a wheel, this
// program's folder is in it. Beside it are packages of one interpreter then, and others do not get to see them.
std::string package_folder() {
    const std::string apart = data_folder() + "/python";
    if (fs::exists(apart + "/offramp/worker.py")) {
        put_in_front("PYTHONPATH", apart);
        return apart + "/offramp";
    }
    const fs::path around = fs::path(data_folder() + "/../..").lexically_normal();
    if (fs::exists(around / "worker.py")) return around.string();
    throw ConfigError("the Python package offramp is not in " + apart,
                      "Build or install it: it runs processors in Python");
}

// Libraries for arrays start a thread a core, in each of the consumers, by default.
void share_cores(std::uint32_t consumers) {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency() / std::max(1U, consumers));
    for (const char* const variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
        ::setenv(variable, std::to_string(cores).c_str(), 0);
}

}  // namespace

bool needs_interpreter(const RunConfig& config) {
    return std::ranges::any_of(config.processors(), [](const std::string& name) {
        const auto spec = ProcessorSpec::of(name);
        return spec && spec->kind == ProcessorSpec::Kind::Python;
    });
}

void become_interpreter(const RunConfig& config, int argc, const char* const* argv) {
    const std::string& chosen = config.catalogue.text("consumer-python");
    const std::string interpreter = chosen.empty() ? "python3" : chosen;
    // By its path: behind -m the interpreter would look into the working folder first, and find a file of the user's.
    const std::string worker = package_folder() + "/worker.py";
    ::setenv("OFFRAMP_WORKER_LIBRARY", worker_library().c_str(), 1);
    share_cores(config.consumers);
    if (config.lifeline_fd >= 0) (void)::fcntl(config.lifeline_fd, F_SETFD, 0);
    std::vector<char*> words{const_cast<char*>(interpreter.c_str()), const_cast<char*>(worker.c_str())};
    for (int i = 1; i < argc; ++i) words.push_back(const_cast<char*>(argv[i]));
    words.push_back(nullptr);
    ::execvp(interpreter.c_str(), words.data());
    throw ConfigError("--processor " + config.processor + " runs in " + interpreter +
                          ", which cannot be started: " + std::strerror(errno),
                      "Give the interpreter with --consumer-python");
}

}  // namespace offramp
