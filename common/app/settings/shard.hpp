#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace offramp {

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

}  // namespace offramp
