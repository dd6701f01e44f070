#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace offramp {

// A setting's value, as the printers write it.
using SettingValue = std::variant<bool, std::int64_t, double, std::string>;

// Without quotes: "true", "4", "0.5", "mask-png".
std::string to_text(const SettingValue& value);

}  // namespace offramp
