#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/app/settings/catalogue_values.hpp"
#include "common/app/settings/sections/input_settings.hpp"
#include "common/app/settings/sections/model_settings.hpp"
#include "common/app/settings/sections/result_settings.hpp"
#include "common/app/settings/sections/run_settings.hpp"
#include "common/app/settings/sections/slab_settings.hpp"

namespace offramp {

// Everything that a user may set for a run, parsed once and then never changed: the sections of
// common/app/settings/sections, each of which may be taken alone, and what plug-ins declare in their own files
// (decision 14). The producer and the consumers read the same settings; the launch script resolves them through
// the command `settings`, keeps what the producer says in the run directory, gives all programs the user's flags, and
// consumers what the producer settles otherwise than they do.
//
// Precedence: command line > environment (OFFRAMP_ and the flag in capitals: OFFRAMP_BATCH) > --config FILE
// (TOML, keys as the flags without dashes in front) > profile > defaults. What is left at "auto" is resolved
// once the device is known (producer/runner/run/defaults.hpp).
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

// Parses a program's arguments, environment and file. `program` is what --help and --version call it.
// That the weights can be read is checked for every program but "offramp-consumer"; other inputs are their
// opener's to check. Errors: ConfigError names flag, value and what is accepted. Its kind is Usage,
// Config when the file is to blame, NoInput for the weights. `--help` and `--version` print and return
// nothing.
std::optional<RunConfig> parse_run_config(int argc, const char* const* argv, const std::string& program);

// The configuration as TOML that parse_run_config reads back to the same values.
std::string to_toml(const RunConfig& config);
// The same as JSON, for programs: one object, keys as in the TOML file.
std::string to_json(const RunConfig& config);

std::vector<std::string> profile_names();

// Puts the profile's settings into `config`. The caller has checked that the name is known.
void apply_profile(const std::string& name, RunConfig& config);

}  // namespace offramp
