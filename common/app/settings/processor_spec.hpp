#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace offramp {

// A custom processor, as --processor names it: "so:./mine.so", "exec:'./tool --flag'", "python:post.py:save",
// "python:package.module:Class", or "post.py:save" for short.
struct ProcessorSpec {
    enum class Kind { SharedObject, Python, Executable };
    Kind kind{};
    std::string what;    // behind the kind: a path, PATH:NAME, a command
    std::string folder;  // what its results' folder is called beside those of others: "mine.so", "post.py-save", "tool"

    // Nothing: `name` is a built-in processor's, or unknown. Errors: ConfigError where the kind is there and the rest
    // is invalid.
    static std::optional<ProcessorSpec> of(std::string_view name);
};

// Where a processor of a run's leaves its results: OUTPUT itself, or, where the run has several, a folder in it.
std::string results_folder(const std::string& output, std::string_view name, std::size_t processors);

}  // namespace offramp
