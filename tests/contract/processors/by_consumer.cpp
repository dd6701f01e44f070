#include "tests/contract/processors/by_consumer.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common/base/error.hpp"
#include "common/dead_letters/payload_file.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp::test {
namespace {

namespace fs = std::filesystem;

const char* from_environment(const char* variable, const char* otherwise) {
    const char* const value = std::getenv(variable);
    return value == nullptr ? otherwise : value;
}

const char* const kInstalled = std::getenv("OFFRAMP_TEST_CONSUMER");
const char* const kConsumer = from_environment("OFFRAMP_TEST_CONSUMER", OFFRAMP_BUILD "/bin/offramp-consumer");
const char* const kPython = from_environment("OFFRAMP_TEST_CONSUMER_PYTHON", OFFRAMP_TEST_PYTHON);

// Writes the output to `log`. Returns the status of waitpid().
int run_to_end(std::vector<std::string> words, const std::string& log) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
        const int file = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
        ::dup2(file, STDERR_FILENO);
        ::dup2(file, STDOUT_FILENO);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

bool ByConsumer::is_installed() { return kInstalled != nullptr; }

std::string ByConsumer::missing_requirement() {
    if (is_installed()) return {};  // an incomplete installation is an error
    static const std::string missing = [] {
        if (!fs::exists(kConsumer) || !fs::exists(OFFRAMP_BUILD "/lib/libofframp_worker.so"))
            return std::string("this build has no consumer in Python");
        const ScratchFolder folder;
        const bool has_numpy = run_to_end({kPython, "-c", "import numpy"}, folder.path() + "/log") == 0;
        return has_numpy ? std::string() : std::string(kPython) + " has no NumPy";
    }();
    return missing;
}

void ByConsumer::process(const SlabContents& slab, const Progress&, const StillCurrent&) {
    const ScratchFolder folder;
    const std::string payload = folder.path() + "/slab.safetensors", log = folder.path() + "/log";
    write_payload(payload, slab);
    const int status = run_to_end({kConsumer, "retry", payload, "--processor", config_.processor, "--consumer-python",
                                   kPython, "--output", config_.output},
                                  log);
    if (!WIFEXITED(status)) throw std::runtime_error("offramp-consumer was killed: " + text_of(log));
    if (WEXITSTATUS(status) != 0) throw Error(static_cast<ErrorKind>(WEXITSTATUS(status)), text_of(log));
}

}  // namespace offramp::test
