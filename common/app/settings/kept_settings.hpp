#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// With absolute paths, for a program whose working folder changes, or another one. Secrets stay as they are.
RunConfig for_any_folder(RunConfig config);

// The settings that a run's producer goes by, as it leaves them in the run directory: for a producer that recovers it,
// to compare its own with, and for consumers, which take settings that they were not given from there. Passwords, keys
// and headers in the clear are left out.
std::string kept_settings_path(const std::string& run_dir);

// Readable for who may enter the run: this user, with --consumer-user the group too. Paths are from / on. Errors:
// SystemError.
void keep_settings(const std::string& run_dir, const RunConfig& config);
// False: the run there is of a custom program, which has no settings. Ask when the run is there.
bool keeps_settings(const std::string& run_dir);
// Errors: Error (NoSuchRun) when none are kept there; ConfigError.
RunConfig kept_settings(const std::string& run_dir);

// As parse_run_config, for a consumer of the run in that directory: what it was not given, or left open ("auto"), is as
// the run has it, but for what concerns this program alone. Errors: as of both.
std::optional<RunConfig> parse_consumer_config(int argc, const char* const* argv, const std::string& program,
                                               const std::string& run_dir);

// The settings that decide what consumers do with slabs and where results go, by flag. A consumer
// sends it in its first message, as a hash, and is refused if it differs from the producer's: it would take slabs, and
// their results would be missing where the run's are. Each setting declares whether it counts (Effect). Pure, but for
// the links in the paths.
struct SlabWork {
    std::map<std::string, std::string> facts;

    // `config` is resolved.
    static SlabWork of(const RunConfig& config);

    std::uint64_t hash() const;
    // "--processor is 'checksum' and should be 'mask-png', ..."; empty when the work of the two is the same.
    static std::string difference(const RunConfig& config, const RunConfig& wanted);

    bool operator==(const SlabWork&) const = default;
};

}  // namespace offramp
