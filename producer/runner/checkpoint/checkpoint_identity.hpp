#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace offramp {

struct RunConfig;

// The inputs and settings that determine a run's outputs. Two runs with the same identity give the same outputs, so one
// may finish the other's work. Each setting declares whether it counts (common/app/settings/effect.hpp). Pure.
struct CheckpointIdentity {
    static constexpr const char* kItems = "items";
    static constexpr const char* kNamesOfItems = "names of the items";
    // for items without names: the total of which --limit takes the first
    static constexpr const char* kItemsOfTheWhole = "items of the whole input";
    // only with --shard: how its items are numbered. Earlier versions numbered each shard's items by themselves
    static constexpr const char* kNumbersOfItems = "numbers of the items";
    std::map<std::string, std::string>
        facts;  // settings by flag ("--batch"), "items", "names of the items", "weights" (hashes)

    // `config` is resolved. `source`: the fingerprint of the items. Reads the weights. Errors: SystemError when they
    // cannot be read.
    static CheckpointIdentity of(const RunConfig& config, std::uint64_t items, const std::string& source);

    // "--batch was 4 and is 8, ..."; empty when the two are the same.
    std::string difference_from(const CheckpointIdentity& previous) const;

    bool operator==(const CheckpointIdentity&) const = default;
};

}  // namespace offramp
