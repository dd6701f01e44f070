#include "common/config/error_limit.hpp"

#include <charconv>

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

bool ErrorLimit::exceeded(std::uint64_t unreadable, std::uint64_t items) const {
    if (percent_ < 0) return unreadable > count_;
    // Multiplied out: 0.29 * 100 is less than 29.
    return static_cast<double>(unreadable) * 100 > percent_ * static_cast<double>(items);
}

}  // namespace offramp
