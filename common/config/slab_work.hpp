#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/config/run_config.hpp"

namespace offramp {

// What a run's consumers do with its slabs, and where the results go: the settings that decide it, by flag. A consumer says it in its
// first message, as a hash, and is not let in with another than the producer's: it would take slabs, and their results would be missing
// where the run's are. Not part of it is what changes how results are made, but not what they are.
// Pure, but for the links in the paths.
struct SlabWork {
    std::map<std::string, std::string> facts;

    // `config` is resolved.
    static SlabWork of(const RunConfig& config);
    // Of settings as to_toml() writes them; `name` is what errors call them. Errors: ConfigError.
    static SlabWork of_settings(const std::string& toml, const std::string& name);

    std::uint64_t hash() const;
    // "--processor is 'checksum' and was to be 'mask-png', ..."; empty when the two are the same.
    std::string difference_from(const SlabWork& wanted) const;

    bool operator==(const SlabWork&) const = default;
};

}  // namespace offramp
