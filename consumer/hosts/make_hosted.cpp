#include "consumer/hosts/make_hosted.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/base/error.hpp"
#include "common/base/own_module.hpp"
#include "consumer/hosts/executable.hpp"
#include "consumer/hosts/hosted_processor.hpp"

namespace offramp {
namespace {

const offramp_processor& code_of(const ProcessorSpec& spec, const std::string& name, const offramp_processor* python) {
    if (spec.kind == ProcessorSpec::Kind::SharedObject) return open_processor(spec.what);
    if (spec.kind == ProcessorSpec::Kind::Executable) return executable_processor();
    if (python == nullptr)
        throw ConfigError("--processor " + name + " needs a Python interpreter, and this process is not one",
                          "Start offramp-consumer, which uses the interpreter of --consumer-python");
    return *python;
}

constexpr const char* kEntry = "offramp_processor_v1";

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libofframp_worker.so";

// ../lib beside this program, in the build and in an installation.
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

// The folder of the interpreter's package. It contains only that package, because child programs of the user's code
// also get the path. In a wheel, this program's folder is in the package. Packages of one interpreter are then beside
// it, and other interpreters must not see them.
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

// By default, array libraries start one thread per core in each consumer.
void share_cores(std::uint32_t consumers) {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency() / std::max(1U, consumers));
    for (const char* const variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
        ::setenv(variable, std::to_string(cores).c_str(), 0);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> processor_options(std::string_view text) {
    std::vector<std::pair<std::string, std::string>> options;
    std::string pair;
    const auto take = [&] {
        const std::size_t equals = pair.find('=');
        if (equals == 0 || equals == std::string::npos)
            throw ConfigError("--processor-option '" + pair + "' is not KEY=VALUE",
                              "Give KEY=VALUE pairs, separated by commas");
        const std::string key = pair.substr(0, equals);
        if (std::ranges::find(options, key, &std::pair<std::string, std::string>::first) != options.end())
            throw ConfigError("--processor-option gives '" + key + "' twice", "Give each once");
        options.emplace_back(key, pair.substr(equals + 1));
        pair.clear();
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == ',')
            pair += text[++at];
        else if (text[at] == ',')
            take();
        else
            pair += text[at];
    }
    if (!text.empty()) take();
    return options;
}

std::unique_ptr<Processor> make_hosted(const ProcessorSpec& spec, const ProcessorOptions& options,
                                       const offramp_processor* python) {
    const std::string& name = options.results.processor;
    HostedOptions given{.name = name,
                        .output = {},
                        .shared_output = {},
                        .durability = options.durability(),
                        .options = processor_options(options.settings.text("processor-option"))};
    if (!options.results.output.empty()) {
        given.output = options.output_for(name);
        given.shared_output = options.shared_output_for(name);
    }
    if (spec.kind == ProcessorSpec::Kind::Executable) given.takes_variable = executable_takes_variable;
    return std::make_unique<HostedProcessor>(code_of(spec, name, python), std::move(given));
}

void check_hosted(const RunConfig& config, const offramp_processor* python) {
    for (const ResultSettings& own : own_results(config))
        if (const auto spec = ProcessorSpec::of(own.processor))
            HostedProcessor::check(code_of(*spec, own.processor, python),
                                   {.name = own.processor,
                                    .output = own.folder_of_samples(),
                                    .shared_output = own.output,
                                    .options = processor_options(config.catalogue.text("processor-option"))});
}

const offramp_processor& open_processor(const std::string& path) {
    const std::string named = "--processor so:" + path;
    if (!std::filesystem::exists(path)) throw ConfigError(named + ": there is no such file", "Give the object's path");
    // The path contains a slash, so the loader does not search the system's folders.
    const std::string absolute = std::filesystem::absolute(path).string();
    void* const object = ::dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr)
        throw ConfigError(named + " cannot be loaded: " + last_loader_error(),
                          "Link it with all libraries that it needs, and build it for this machine");
    using Entry = const offramp_processor* (*)();
    const auto entry = reinterpret_cast<Entry>(::dlsym(object, kEntry));
    if (entry == nullptr)
        throw ConfigError(named + " exports no " + std::string(kEntry) + "()",
                          "Define it, extern \"C\" in C++: offramp_processor.h");
    const offramp_processor* const processor = entry();
    if (processor == nullptr || processor->size < offsetof(offramp_processor, destroy) + sizeof(processor->destroy) ||
        processor->create == nullptr || processor->process == nullptr)
        throw ConfigError(named + ": " + std::string(kEntry) + "() returns an incomplete offramp_processor",
                          "Set `size` to its sizeof, and `create` and `process`");
    return *processor;
}

bool needs_interpreter(const RunConfig& config) {
    return std::ranges::any_of(config.processors(), [](const std::string& name) {
        const auto spec = ProcessorSpec::of(name);
        return spec && spec->kind == ProcessorSpec::Kind::Python;
    });
}

void become_interpreter(const RunConfig& config, int argc, const char* const* argv) {
    const std::string& chosen = config.catalogue.text("consumer-python");
    const std::string interpreter = chosen.empty() ? "python3" : chosen;
    // Starts the worker by its path: with -m the interpreter would search the working folder first, and might find a
    // user's file.
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
