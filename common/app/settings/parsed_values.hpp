#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace offramp {

// The shape of a sample, as a user writes it: "1x?x?", with '?' where samples differ. Accepts 1 to 7 dimensions of 1 to
// 65536. Returns nothing for any other text. `varying`: stands for '?'; nothing: there is none.
std::optional<std::vector<std::int64_t>> parse_sample_shape(std::string_view text,
                                                            std::optional<std::int64_t> varying = {});

// The shapes of one sample's outputs, as a user writes them: "96x256x256,192x128x128" are two outputs.
struct OutputShapes {
    std::vector<std::vector<std::int64_t>> outputs;

    // Accepts 1 to 16 outputs, without '?'. Returns nothing for any other text.
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

// The maximum of unreadable items in a successful run: a number ("25") or a share of all items ("1%", "0.5%"). A share
// is rounded up to whole items: at least one item may be unreadable, unless the share is 0 %.
class ErrorLimit {
  public:
    // Returns nothing if the text is neither.
    static std::optional<ErrorLimit> parse(std::string_view text);

    // True if `unreadable` items of a source with `items` items are too many.
    bool exceeded(std::uint64_t unreadable, std::uint64_t items) const { return unreadable > allowed(items); }
    // The maximum of unreadable items among `items`.
    std::uint64_t allowed(std::uint64_t items) const;

  private:
    ErrorLimit(std::uint64_t count, double percent) : count_(count), percent_(percent) {}

    std::uint64_t count_;
    double percent_;  // of all items, 0 to 100; negative: use count_
};

}  // namespace offramp
