#pragma once

#include <stdexcept>

#include "common/base/error.hpp"

namespace offramp {

// Thrown by a source's load() when an item cannot be read. what() is the reason in one line, without the key.
class UnreadableItem : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Calls `read`, which reads an item's file, and turns its Error into an UnreadableItem with the same text.
template <class Read>
auto or_unreadable(const Read& read) {
    try {
        return read();
    } catch (const Error& problem) {
        throw UnreadableItem(problem.what());
    }
}

}  // namespace offramp
