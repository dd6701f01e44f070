#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

}  // namespace offramp
