#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace offramp {

// What the producer knows of one row of a batch, until it is in a slab. SampleEntry (common/wire/slab_view.hpp) is the
// part of it that others get: why a row means nothing is counted and reported here, and is in no slab.
struct RowInfo {
    std::uint64_t item = 0;
    std::string_view key;  // of the source, which outlives it; empty: the item's number stands for it
    // the item could not be read, or is done: its row is zero before normalisation and means nothing
    bool empty = false;
    bool done = false;   // by an earlier run or producer: empty only because its batch is made for others
    std::string reason;  // of an item that could not be read
};

}  // namespace offramp
