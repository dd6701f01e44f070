#pragma once

#include <string_view>

namespace offramp {

// Names that begin so are ours, in every folder of an output: temporary files, segments, the checkpoint. No sample may
// claim one.
inline constexpr std::string_view kReservedPrefix = ".offramp-";

}  // namespace offramp
