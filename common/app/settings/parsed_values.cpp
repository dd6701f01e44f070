#include "common/app/settings/parsed_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
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

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return number;
}

}  // namespace

std::optional<std::vector<std::int64_t>> parse_sample_shape(std::string_view text,
                                                            std::optional<std::int64_t> varying) {
    if (text.empty() || text.back() == 'x') return std::nullopt;
    std::vector<std::int64_t> shape;
    while (!text.empty()) {
        const std::string_view part = take_part(text, 'x');
        const bool varies = varying && part == "?";
        const auto extent = parse_number<std::int64_t>(part).value_or(0);
        if ((!varies && (extent < 1 || extent > kMaxExtent)) || shape.size() == kMaxSampleDims) return std::nullopt;
        shape.push_back(varies ? *varying : extent);
    }
    return shape;
}

std::optional<OutputShapes> OutputShapes::parse(std::string_view text) {
    if (text.empty() || text.back() == ',') return std::nullopt;
    OutputShapes shapes;
    while (!text.empty()) {
        auto shape = parse_sample_shape(take_part(text, ','));
        if (!shape || shapes.outputs.size() == kMaxOutputs) return std::nullopt;
        shapes.outputs.push_back(std::move(*shape));
    }
    return shapes;
}

std::optional<Shard> Shard::parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto number = parse_number<std::uint64_t>(text.substr(0, slash));
    const auto count = parse_number<std::uint64_t>(text.substr(slash + 1));
    if (!number || !count || *number < 1 || *number > *count || *count > kMostShards) return std::nullopt;
    return Shard{.number = *number, .count = *count};
}

Shard::Range Shard::of(std::uint64_t items) const {
    const auto begin_of = [&](std::uint64_t shard) { return items / count * shard + std::min(shard, items % count); };
    return {.begin = begin_of(number - 1), .end = begin_of(number)};
}

std::optional<ErrorLimit> ErrorLimit::parse(std::string_view text) {
    if (!text.ends_with('%')) {
        const auto count = parse_number<std::uint64_t>(text);
        if (!count) return std::nullopt;
        return ErrorLimit(*count, -1);
    }
    text.remove_suffix(1);
    const auto percent = parse_number<double>(text);
    if (!percent || !(*percent >= 0 && *percent <= 100)) return std::nullopt;
    return ErrorLimit(0, *percent);
}

std::uint64_t ErrorLimit::allowed(std::uint64_t items) const {
    if (percent_ < 0) return count_;
    // Divide last: 0.29 * 100 is more than 29, but 29 * 100 / 100 is not.
    return static_cast<std::uint64_t>(std::ceil(percent_ * static_cast<double>(items) / 100));
}

}  // namespace offramp
