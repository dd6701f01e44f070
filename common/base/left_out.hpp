#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// Parts of a run's input that no item is made of, or that an item lacks. They are counted, never dropped in silence.
struct LeftOut {
    std::string what;  // plural, to be put behind the number: "members that are links"
    std::uint64_t count = 0;
};

}  // namespace offramp
