#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/sections.hpp"

namespace offramp {

// Everything that a user may set for a run, parsed once and never changed afterwards: the sections of
// sections.hpp, and the settings that plug-ins declare in their own files (decision
// 14). Producer and consumers read the same settings. The launch script resolves them with the command `settings` and
// stores the producer's output in the run directory. It passes the user's flags to all programs, and to consumers also
// the values that the producer resolves differently.
//
// Precedence: command line > environment (OFFRAMP_ and the flag in capitals: OFFRAMP_BATCH) > --config FILE (TOML, keys
// are the flags without leading dashes) > profile > defaults. Values of "auto" are resolved once the device is known
// (producer/runner/run/defaults.hpp).
struct RunConfig : RunSettings,
                   InputSettings,
                   ModelSettings,
                   SlabSettings,
                   MeasuringSettings,
                   DeliverySettings,
                   ResultSettings,
                   ActionSettings {
    CatalogueValues catalogue;

    bool operator==(const RunConfig&) const = default;
};

// Parses a program's arguments, environment and file. `program` is its name in --help and --version.
// Checks that the weights can be read, except for "offramp-consumer"; other inputs are checked when they are opened.
// Returns nothing after printing --help or --version. Errors: ConfigError with flag, value and accepted values: Usage,
// Config for an error in the file, NoInput for the weights.
std::optional<RunConfig> parse_run_config(int argc, const char* const* argv, const std::string& program);

// For the consumers of one group, whose run directory is `run_dir`. The output folder is the run's.
RunConfig config_of_group(const RunConfig& config, const GroupSettings& group, const std::string& run_dir);

// The configuration as TOML. parse_run_config() reads it back to the same values.
std::string to_toml(const RunConfig& config);
// The same as JSON, for programs: one object, keys as in the TOML file.
std::string to_json(const RunConfig& config);

std::vector<std::string> profile_names();

// Stores the profile's settings in `config`. The name must be known.
void apply_profile(const std::string& name, RunConfig& config);

}  // namespace offramp
