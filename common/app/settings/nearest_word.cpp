#include "common/app/settings/nearest_word.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace offramp {
namespace {

// Levenshtein's distance, one row at a time.
std::size_t edits_between(std::string_view from, std::string_view to) {
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < from.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < to.size(); ++j) {
            const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

}  // namespace

std::optional<std::string> nearest_word(std::string_view typed, std::span<const std::string> known) {
    std::size_t fewest = std::max<std::size_t>(2, typed.size() / 3) + 1;
    std::optional<std::string> nearest;
    for (const std::string& word : known) {
        const std::size_t edits = edits_between(typed, word);
        if (edits >= fewest) continue;
        fewest = edits;
        nearest = word;
    }
    return nearest;
}

}  // namespace offramp
