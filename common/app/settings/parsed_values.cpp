#include "common/app/settings/parsed_values.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace offramp {
namespace {

constexpr std::size_t kMaxOutputs = 16;
constexpr std::size_t kMaxSampleDims = 7;
constexpr std::int64_t kMaxExtent = 65536;
constexpr std::uint64_t kMostShards = 1'000'000;

// Removes and returns the part before the next `separator`; also removes the separator.
std::string_view take_part(std::string_view& text, char separator) {
    const std::size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return part;
}

std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
    if (text.empty() || text.back() == 'x') return std::nullopt;
    std::vector<std::int64_t> shape;
    while (!text.empty()) {
        const std::string_view part = take_part(text, 'x');
        std::int64_t extent = 0;
        const auto result = std::from_chars(part.data(), part.data() + part.size(), extent);
        if (result.ec != std::errc() || result.ptr != part.data() + part.size()) return std::nullopt;
        if (extent < 1 || extent > kMaxExtent || shape.size() == kMaxSampleDims) return std::nullopt;
        shape.push_back(extent);
    }
    return shape;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return number;
}

}  // namespace

std::optional<OutputShapes> OutputShapes::parse(std::string_view text) {
    if (text.empty() || text.back() == ',') return std::nullopt;
    OutputShapes shapes;
    while (!text.empty()) {
        auto shape = parse_shape(take_part(text, ','));
        if (!shape || shapes.outputs.size() == kMaxOutputs) return std::nullopt;
        shapes.outputs.push_back(std::move(*shape));
    }
    return shapes;
}

std::optional<Shard> Shard::parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto number = parse_number(text.substr(0, slash));
    const auto count = parse_number(text.substr(slash + 1));
    if (!number || !count || *number < 1 || *number > *count || *count > kMostShards) return std::nullopt;
    return Shard{.number = *number, .count = *count};
}

Shard::Range Shard::of(std::uint64_t items) const {
    const auto begin_of = [&](std::uint64_t shard) { return items / count * shard + std::min(shard, items % count); };
    return {.begin = begin_of(number - 1), .end = begin_of(number)};
}

}  // namespace offramp
