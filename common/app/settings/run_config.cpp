#include "common/app/settings/run_config.hpp"

#include "common/app/settings/given_values.hpp"
#include "common/app/settings/profile.hpp"

namespace offramp {

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
