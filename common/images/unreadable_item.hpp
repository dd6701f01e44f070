#pragma once

#include <stdexcept>

namespace offramp {

// Thrown by a source's load() when an item cannot be read: the reason, in one line, without the key.
class UnreadableItem : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace offramp
