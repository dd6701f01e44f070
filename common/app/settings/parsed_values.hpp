#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The outputs of one sample, as a user writes them: "96x256x256,192x128x128" is two, each with its dimensions.
struct OutputShapes {
    std::vector<std::vector<std::int64_t>> outputs;

    // 1 to 16 outputs of 1 to 7 dimensions of 1 to 65536. Nothing when the text is not such a list.
    static std::optional<OutputShapes> parse(std::string_view text);
};

// One of several equal parts of an input, each for a separate run: "2/4" is the second of four.
struct Shard {
    std::uint64_t number = 1;  // 1 to count
    std::uint64_t count = 1;

    // Nothing when the text is not such a thing.
    static std::optional<Shard> parse(std::string_view text);

    // Which items of so many: [begin, end). The shards of one count follow one another without a gap, and differ by one
    // item at most.
    struct Range {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
    };
    Range of(std::uint64_t items) const;
};

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
