#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace offramp {

// "[3, ?, 16]"; "?" for kVarying
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace offramp
