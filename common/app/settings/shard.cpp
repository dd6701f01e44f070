#include "common/app/settings/shard.hpp"

#include <algorithm>
#include <charconv>

namespace offramp {
namespace {

constexpr std::uint64_t kMostShards = 1'000'000;

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return number;
}

}  // namespace

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
