#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "common/config/flat_toml.hpp"
#include "common/config/run_config.hpp"
#include "common/config/setting.hpp"

namespace offramp {
namespace {

// Writes a value as TOML.
struct TomlWriter {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(const std::string& value) const { return quote_toml(value); }
    // The shortest text that reads back as the same double; a TOML float needs a point or an exponent.
    std::string operator()(double value) const {
        std::array<char, 32> text{};
        const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
        std::string number(text.data(), result.ptr);
        return number.find_first_of(".en") == std::string::npos ? number + ".0" : number;
    }
};

}  // namespace

std::string to_toml(const RunConfig& config) {
    std::string text;
    std::string group;
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        if (setting.group != group) text += (text.empty() ? "# " : "\n# ") + setting.group + "\n";
        group = setting.group;
        text += setting.flag + " = " + std::visit(TomlWriter{}, setting.get(config)) + "\n";
    }
    return text;
}

std::string to_json(const RunConfig& config) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        std::visit([&](const auto& value) { object[setting.flag] = value; }, setting.get(config));
    }
    return object.dump(2);
}

}  // namespace offramp
