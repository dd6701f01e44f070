#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/app/settings/run_config.hpp"

namespace offramp {

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
