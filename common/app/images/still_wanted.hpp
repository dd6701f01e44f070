#pragma once

#include <functional>

namespace offramp {

// Called in the middle of a listing, which may take long; throws when that is to end. May be empty.
using StillWanted = std::function<void()>;

}  // namespace offramp
