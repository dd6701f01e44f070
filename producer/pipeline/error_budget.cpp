#include "producer/pipeline/error_budget.hpp"

#include <algorithm>

namespace offramp {
namespace {

constexpr std::size_t kReasonsShown = 3;

ErrorLimit parse_limit(std::string_view setting) {
    if (const auto limit = ErrorLimit::parse(setting)) return *limit;
    throw ConfigError("--max-errors '" + std::string(setting) + "' is neither a count nor a percentage",
                      "Give a number of items, as in 25, or a share of them from 0% to 100%, as in 1%");
}

}  // namespace

ErrorBudget::ErrorBudget(std::string_view setting, std::uint64_t items)
    : setting_(setting), limit_(parse_limit(setting)), items_(items) {}

Error ErrorBudget::failure(std::uint64_t failed, std::span<const SkippedItem> first) const {
    const bool none_read = nothing_was_read(failed);
    std::string text = none_read
                           ? "none of the " + std::to_string(items_) + " items could be read"
                           : std::to_string(failed) + " of " + std::to_string(items_) +
                                 " items could not be read, more than --max-errors " + setting_ + " allows";
    text += ": ";
    const std::size_t shown = std::min(first.size(), kReasonsShown);
    for (std::size_t i = 0; i < shown; ++i)
        text += (i == 0 ? "" : "; ") + first[i].origin + ": " + first[i].reason;
    if (failed > shown) text += "; ...";
    return Error(ExitCode::BadInput, text,
                 none_read ? "Give --input JPEG or PNG files that can be read"
                           : "Mend or remove these files, or raise --max-errors");
}

}  // namespace offramp
