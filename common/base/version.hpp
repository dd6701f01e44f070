#pragma once

#include <string_view>

namespace offramp {

// "0.1.0": the version of the project that this program was built from.
std::string_view program_version() noexcept;

}  // namespace offramp
