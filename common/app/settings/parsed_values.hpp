#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The shapes of one sample's outputs, as a user writes them: "96x256x256,192x128x128" are two outputs.
struct OutputShapes {
    std::vector<std::vector<std::int64_t>> outputs;

    // Accepts 1 to 16 outputs with 1 to 7 dimensions of 1 to 65536. Returns nothing for any other text.
    static std::optional<OutputShapes> parse(std::string_view text);
};

// One of several equal parts of an input, each processed by a separate run: "2/4" is the second of four.
struct Shard {
    std::uint64_t number = 1;  // 1 to count
    std::uint64_t count = 1;

    // Returns nothing if the text is not a shard.
    static std::optional<Shard> parse(std::string_view text);

    // The shard's items [begin, end) among `items`. Shards with the same count are contiguous, and their sizes differ
    // by at most one item.
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
    std::string what;  // the text after the kind: a path, PATH:NAME, a command
    std::string
        folder;  // the name of its results folder if a run has several processors: "mine.so", "post.py-save", "tool"

    // Returns nothing if `name` is a built-in processor, or unknown. Errors: ConfigError if the kind is followed by an
    // invalid text.
    static std::optional<ProcessorSpec> of(std::string_view name);
};

// The folder of a processor's results: OUTPUT itself, or a folder in it if the run has several processors.
std::string results_folder(const std::string& output, std::string_view name, std::size_t processors);

}  // namespace offramp
