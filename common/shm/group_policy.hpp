#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace offramp {

// Policy for a batch when no slab is free.
enum class WhenFull { Wait, Drop, DropOldest, Spill };

// How a run treats a group of consumers, by the words after the group's first comma: "optional,drop-oldest".
struct GroupPolicy {
    bool optional = false;                // the run does not wait for it
    WhenFull when_full = WhenFull::Wait;  // as given; Drop only in a run without groups

    // Without a free slab, the group's oldest waiting one is dropped for it.
    bool drops_oldest() const { return when_full == WhenFull::DropOldest || (optional && when_full == WhenFull::Wait); }
    // What it drops is dropped for the whole run.
    bool drops_for_run() const { return !optional && drops_oldest(); }

    // The accepted words after a name or processor, for errors and help.
    static constexpr const char* kForm = "[,optional][,drop-oldest|spill]";
    // Stores the words in `policy`. Returns the problem ("has 'optional' twice"), or nothing if they are valid.
    static std::optional<std::string> parse(std::string_view words, GroupPolicy& policy);

    bool operator==(const GroupPolicy&) const = default;
};

}  // namespace offramp
