#include "common/app/settings/setting_value.hpp"

#include <array>
#include <charconv>

namespace offramp {

std::string to_text(const SettingValue& value) {
    if (const auto* const text = std::get_if<std::string>(&value)) return *text;
    if (const auto* const on = std::get_if<bool>(&value)) return *on ? "true" : "false";
    if (const auto* const whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
    // The shortest text that reads back as the same double; a TOML float needs a point or an exponent.
    std::array<char, 32> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), std::get<double>(value));
    std::string number(text.data(), result.ptr);
    return number.find_first_of(".en") == std::string::npos ? number + ".0" : number;
}

}  // namespace offramp
