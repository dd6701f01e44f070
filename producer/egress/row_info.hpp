#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace offramp {

// The producer's record of one row of a batch, until it is in a slab. SampleEntry (common/wire/slab_view.hpp) is the
// part that consumers get. The reason for an empty row is counted and reported by the producer only.
struct RowInfo {
    std::uint64_t item = 0;
    std::string_view key;  // the source's, which outlives it; empty: the item number serves as the key
    // the item is unreadable or done: its row is zero before normalisation, and invalid
    bool empty = false;
    bool done = false;   // by an earlier run or producer: empty only because other items need its batch
    std::string reason;  // why the item is unreadable
};

}  // namespace offramp
