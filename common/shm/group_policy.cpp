#include "common/shm/group_policy.hpp"

#include <algorithm>
#include <set>

#include "common/base/utf8.hpp"

namespace offramp {

std::optional<std::string> GroupPolicy::parse(std::string_view words, GroupPolicy& policy) {
    policy = {};
    std::set<std::string_view> seen;
    for (std::size_t begin = 0; begin <= words.size();) {
        const std::size_t end = std::min(words.find(',', begin), words.size());
        const std::string_view word = words.substr(begin, end - begin);
        begin = end + 1;
        if (word == "optional")
            policy.optional = true;
        else if (word == "drop-oldest")
            policy.when_full = WhenFull::DropOldest;
        else if (word == "spill")
            policy.when_full = WhenFull::Spill;
        else
            return "has '" + printable(word) + "' after a comma, where only optional, drop-oldest and spill may follow";
        if (!seen.insert(word).second) return "has '" + std::string(word) + "' twice";
    }
    if (seen.contains("drop-oldest") && seen.contains("spill")) return "has both drop-oldest and spill: give one";
    if (policy.optional && policy.when_full == WhenFull::Spill)
        return "has both optional and spill: the run does not wait for an optional group, but would for its files";
    return std::nullopt;
}

}  // namespace offramp
