#include "common/settings/run_config.hpp"

#include <algorithm>

#include "common/settings/given_values.hpp"
#include "common/settings/profile.hpp"

namespace offramp {

std::vector<std::string> RunConfig::processors() const {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= processor.size();) {
        const std::size_t end = std::min(processor.find(',', begin), processor.size());
        names.push_back(processor.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

bool RunConfig::has_processor(std::string_view name) const {
    return std::ranges::any_of(processors(), [name](const std::string& other) { return other == name; });
}

// The value may hold a password, and is never shown.
bool RunConfig::has_postgres_sink() const {
    const bool uri = sink.find("://") != std::string::npos;
    return sink.starts_with("postgres://") || sink.starts_with("postgresql://") ||
           (!uri && sink.find('=') != std::string::npos);
}

std::vector<std::string> RunConfig::postgres_contents() const {
    constexpr std::string_view kSuffix = "-postgres";
    std::vector<std::string> contents;
    for (const std::string& name : processors())
        if (name.ends_with(kSuffix)) contents.push_back(name.substr(0, name.size() - kSuffix.size()));
    return contents;
}

std::optional<RunConfig> parse_run_config(int argc, const char* const* argv, const std::string& program) {
    const std::vector<Setting> settings = make_settings();
    const auto given = read_given(argc, argv, program, settings);
    if (!given) return std::nullopt;

    RunConfig config;
    for (const Setting& setting : settings)
        if (setting.flag == "profile" || setting.flag == "sink") apply(setting, *given, config);
    apply_profile(config.profile, config);
    for (const Setting& setting : settings) apply(setting, *given, config);
    check_together(config, *given, program);
    return config;
}

}  // namespace offramp
