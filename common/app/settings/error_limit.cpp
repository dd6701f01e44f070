#include "common/app/settings/error_limit.hpp"

#include <charconv>
#include <cmath>

namespace offramp {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return number;
}

}  // namespace

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
