#pragma once

#include <stdexcept>

#include "common/base/error.hpp"

namespace offramp {

// Thrown by a source's load() when an item cannot be read: the reason, in one line, without the key.
class UnreadableItem : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Runs what reads an item's file, as a RegularFile: where that throws an Error, this is the reason for which the item
// cannot be read.
template <class Read>
auto or_unreadable(const Read& read) {
    try {
        return read();
    } catch (const Error& problem) {
        throw UnreadableItem(problem.what());
    }
}

}  // namespace offramp
