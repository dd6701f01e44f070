#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"

namespace offramp {

// A given value, and its name in errors.
struct GivenValue {
    std::string text;
    std::string origin;  // "--batch", "OFFRAMP_BATCH (--batch)", "run.toml:3: batch (--batch)"
    ErrorKind kind = ErrorKind::Usage;
};
using GivenValues = std::map<std::string, GivenValue>;  // by flag

// The settings given to a program: its command line, then its environment, then the file of --config; the first of
// these that has a setting wins. Nothing when --help or --version answered the command line. Errors: ConfigError, as of
// parse_run_config.
std::optional<GivenValues> read_given(int argc, const char* const* argv, const std::string& program,
                                      const std::vector<Setting>& settings);
// The settings in a file. Errors: ConfigError (Config) names file, line and key.
GivenValues read_file(const std::string& path, const std::vector<Setting>& settings);

// Puts the setting's value, if one was given, into the configuration. Errors: ConfigError lists the accepted values.
void apply(const Setting& setting, const GivenValues& given, RunConfig& config);

// Checks across several settings. Errors: ConfigError.
void check_together(const RunConfig& config, const GivenValues& given, const std::string& program);

}  // namespace offramp
