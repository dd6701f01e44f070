#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"

namespace offramp {

// The text of a value that the user gave, and its origin for errors.
struct GivenValue {
    std::string text;
    std::string origin;  // "--batch", "OFFRAMP_BATCH (--batch)", "run.toml:3: batch (--batch)"
    ErrorKind kind = ErrorKind::Usage;
};
using GivenValues = std::map<std::string, GivenValue>;  // by flag

// Reads the settings given to a program: command line, then environment, then the file of --config; the first of these
// wins. Returns nothing after --help or --version. Errors: ConfigError, like parse_run_config().
std::optional<GivenValues> read_given(int argc, const char* const* argv, const std::string& program,
                                      const std::vector<Setting>& settings);
// Reads the settings in a file. Errors: ConfigError (Config) with file, line and key.
GivenValues read_file(const std::string& path, const std::vector<Setting>& settings);

// Stores the setting's given value, if any, in the configuration. Errors: ConfigError lists the accepted values.
void apply(const Setting& setting, const GivenValues& given, RunConfig& config);

}  // namespace offramp
