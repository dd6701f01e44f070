#include "tests/support/faulty_consumer/test_setting.hpp"

#include <charconv>
#include <cstdlib>

#include "common/base/error.hpp"

namespace offramp::faulty {

std::string text_setting(const char* variable, const std::string& otherwise) {
    const char* value = std::getenv(variable);
    return value == nullptr ? otherwise : value;
}

std::string required_setting(const char* variable) {
    const std::string value = text_setting(variable, "");
    if (value.empty()) throw ConfigError(std::string(variable) + " is not set");
    return value;
}

std::uint64_t number_setting(const char* variable, std::uint64_t otherwise) {
    const std::string value = text_setting(variable, "");
    if (value.empty()) return otherwise;
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size())
        throw ConfigError(std::string(variable) + " is '" + value + "'", "Wanted: a number");
    return number;
}

}  // namespace offramp::faulty
