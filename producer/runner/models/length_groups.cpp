#include "producer/runner/models/length_groups.hpp"

#include <algorithm>
#include <numeric>

#include "common/base/error.hpp"
#include "common/wire/slab_layout.hpp"

namespace offramp {
namespace {

constexpr std::size_t kGroupAlignment = 64;

std::size_t group_bytes(std::uint32_t rows, std::uint32_t length) {
    return round_up(std::size_t{rows} * 2 * length * sizeof(std::int32_t), kGroupAlignment);
}

std::size_t places_bytes(std::size_t batch) { return round_up(batch * sizeof(std::int64_t), kGroupAlignment); }

}  // namespace

LengthGroups::LengthGroups(std::span<const std::uint32_t> lengths, std::size_t items, std::uint32_t rows_of_each,
                           std::uint32_t longest)
    : rows(rows_of_each), places(lengths.size()), bytes(places_bytes(lengths.size())) {
    expect(rows > 0 && lengths.size() % rows == 0, "a batch consists of whole groups");
    std::vector<std::uint32_t> order(lengths.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order,
                             [&](std::uint32_t one, std::uint32_t other) { return lengths[one] > lengths[other]; });
    for (std::size_t place = 0; place < order.size(); ++place) {
        const std::uint32_t length = lengths[order[place]];
        places[order[place]] = static_cast<std::int64_t>(place);
        tokens += length;
        if (place % rows != 0 || order[place] >= items) continue;
        expect(length <= longest, "a text is as long as the model takes at most");
        groups.push_back({.length = rounded_up(length, longest), .offset = bytes});
        bytes += group_bytes(rows, groups.back().length);
        padded_tokens += std::uint64_t{rows} * groups.back().length;
    }
    std::vector<std::uint64_t> first;  // of each group
    for (std::uint64_t at = 0; const Group& group : groups) {
        first.push_back(at);
        at += std::uint64_t{rows} * group.length;
    }
    for (std::size_t row = 0; row < lengths.size(); ++row) {
        const auto place = static_cast<std::size_t>(places[row]);
        const std::size_t group = place / rows;
        texts.push_back(group < groups.size()
                            ? TokenRows{first[group] + place % rows * groups[group].length, lengths[row]}
                            : TokenRows{});
    }
}

std::size_t LengthGroups::most_bytes(std::uint32_t batch, std::uint32_t rows, std::uint32_t longest) {
    return places_bytes(batch) + batch / rows * group_bytes(rows, longest);
}

std::uint32_t LengthGroups::rounded_up(std::uint32_t length, std::uint32_t longest) {
    const std::uint32_t step = length <= 64 ? 4 : length <= 128 ? 8 : 16;
    return std::min(std::max((length + step - 1) / step * step, kShortest), longest);
}

std::vector<TokenRows> token_rows(std::span<const std::uint32_t> lengths, std::uint32_t longest) {
    std::vector<TokenRows> texts;
    texts.reserve(lengths.size());
    for (const std::uint32_t length : lengths) texts.push_back({std::uint64_t{longest} * texts.size(), length});
    return texts;
}

std::uint32_t tokens_of_row(std::span<const std::int32_t> row) {
    const auto mask = row.last(row.size() / 2);
    std::size_t length = mask.size();
    while (length > 0 && mask[length - 1] == 0) --length;
    return static_cast<std::uint32_t>(length);
}

}  // namespace offramp
