#include <nlohmann/json.hpp>

#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/app/settings/toml.hpp"

namespace offramp {
namespace {

std::string as_toml(const SettingValue& value) {
    const auto* const text = std::get_if<std::string>(&value);
    return text != nullptr ? quote_toml(*text) : to_text(value);
}

}  // namespace

std::string to_toml(const RunConfig& config) {
    std::string text;
    std::string group;
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        if (setting.group != group) text += (text.empty() ? "# " : "\n# ") + setting.group + "\n";
        group = setting.group;
        text += setting.flag + " = " + as_toml(setting.get(config)) + "\n";
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
