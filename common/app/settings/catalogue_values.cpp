#include "common/app/settings/catalogue_values.hpp"

#include <array>
#include <charconv>
#include <utility>

#include "common/app/settings/declared_setting.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

template <class Value>
const Value& as(const SettingValue& value) {
    const auto* const held = std::get_if<Value>(&value);
    expect(held != nullptr, "a declared setting is read as what it is");
    return *held;
}

}  // namespace

CatalogueValues::CatalogueValues() {
    for (const DeclaredSetting& setting : DeclaredSetting::all()) values_[setting.flag] = setting.preset;
}

const SettingValue& CatalogueValues::at(std::string_view flag) const {
    const auto found = values_.find(flag);
    expect(found != values_.end(), "the setting is declared");
    return found->second;
}

const std::string& CatalogueValues::text(std::string_view flag) const { return as<std::string>(at(flag)); }
std::int64_t CatalogueValues::number(std::string_view flag) const { return as<std::int64_t>(at(flag)); }
double CatalogueValues::decimal(std::string_view flag) const { return as<double>(at(flag)); }
bool CatalogueValues::on(std::string_view flag) const { return as<bool>(at(flag)); }

void CatalogueValues::put(std::string_view flag, SettingValue value) {
    const auto found = values_.find(flag);
    expect(found != values_.end() && found->second.index() == value.index(), "a declared setting keeps its kind");
    found->second = std::move(value);
}

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
