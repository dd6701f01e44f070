#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace offramp {

// The known word that was most likely meant by a mistyped one (fewest edits, and few enough); nothing when none is
// near.
std::optional<std::string> nearest_word(std::string_view typed, std::span<const std::string> known);

}  // namespace offramp
