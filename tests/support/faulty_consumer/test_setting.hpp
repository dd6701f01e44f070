#pragma once

#include <cstdint>
#include <string>

namespace offramp::faulty {

// Reads a setting of the test from the environment. Errors: ConfigError names the variable.
std::string text_setting(const char* variable, const std::string& otherwise);
std::string required_setting(const char* variable);
std::uint64_t number_setting(const char* variable, std::uint64_t otherwise);

}  // namespace offramp::faulty
