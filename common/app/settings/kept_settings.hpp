#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// Returns the configuration with absolute paths, for use in another working folder. Does not change secrets.
RunConfig for_any_folder(RunConfig config);

// The file in the run directory in which the producer stores its settings. A producer that recovers the run compares
// its own settings with it. Consumers take settings that were not given to them from it. It omits passwords, keys and
// headers in the clear.
std::string kept_settings_path(const std::string& run_dir);

// Stores the settings with absolute paths. This user may read the file; with --consumer-user, also the group. Errors:
// SystemError.
void keep_settings(const std::string& run_dir, const RunConfig& config);
// False for a run of a custom program, which has no settings. The run must exist.
bool keeps_settings(const std::string& run_dir);
// Reads the stored settings. Errors: Error (NoSuchRun) if there are none; ConfigError.
RunConfig kept_settings(const std::string& run_dir);

// Like parse_run_config(), for a consumer of the run in that directory. Settings that were not given, or are "auto",
// have the run's values, except those that concern a single program. Errors: those of kept_settings() and
// parse_run_config().
std::optional<RunConfig> parse_consumer_config(int argc, const char* const* argv, const std::string& program,
                                               const std::string& run_dir);

// The settings that determine how consumers process slabs and where results go, by flag. A consumer sends their hash in
// its first message, and is refused if it differs from the producer's: results of its slabs would be missing from the
// run's. Each setting declares whether it counts (Effect). Pure, except that links in paths are resolved.
struct SlabWork {
    std::map<std::string, std::string> facts;

    // `config` must be resolved.
    static SlabWork of(const RunConfig& config);

    std::uint64_t hash() const;
    // "--processor is 'checksum' and should be 'mask-png', ..."; empty if both have the same work.
    static std::string difference(const RunConfig& config, const RunConfig& wanted);

    bool operator==(const SlabWork&) const = default;
};

}  // namespace offramp
