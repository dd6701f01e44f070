#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace offramp {

// A setting's value.
using SettingValue = std::variant<bool, std::int64_t, double, std::string>;

// The value without quotes: "true", "4", "0.5", "mask-png".
std::string to_text(const SettingValue& value);

// The values of the settings that plug-ins and rooms declare in their own files (declared_setting.hpp), by flag. Always
// holds all of them; a new object holds their presets. The code that declares a setting reads its value from here into
// its own struct. Errors: an undeclared flag, or a value of the wrong kind, is a bug (expect).
class CatalogueValues {
  public:
    CatalogueValues();

    const SettingValue& at(std::string_view flag) const;
    const std::string& text(std::string_view flag) const;
    std::int64_t number(std::string_view flag) const;
    double decimal(std::string_view flag) const;
    bool on(std::string_view flag) const;

    // Does not check the value: Setting::set does.
    void put(std::string_view flag, SettingValue value);

    bool operator==(const CatalogueValues&) const = default;

  private:
    std::map<std::string, SettingValue, std::less<>> values_;
};

}  // namespace offramp
