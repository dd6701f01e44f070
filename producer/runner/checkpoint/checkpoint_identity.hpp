#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace offramp {

struct RunConfig;

// What a run's outputs are made from and by: two runs with the same identity give the same outputs, so that one may
// finish what the other began. Which settings count, each of them says itself (common/settings/effect.hpp). Pure.
struct CheckpointIdentity {
    static constexpr const char* kItems = "items";
    static constexpr const char* kNamesOfItems = "names of the items";
    // where they have no names: of which --limit takes the first
    static constexpr const char* kItemsOfTheWhole = "items of the whole input";
    // only with --shard: by what its items are numbered. Before it was there they were by the shard's own
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
