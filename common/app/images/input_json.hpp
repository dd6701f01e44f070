#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace offramp {

// Parses the input's description of an item: one JSON object, of at most 64 levels of objects and arrays, itself among
// them. What copies or writes JSON goes down level by level, and a text of a few hundred kilobytes is deeper than a
// thread's stack. A whole number beyond 64 bits, as ids may be, becomes a text of its digits instead of a rounded
// double. Thread: any. Errors: UnreadableItem: not JSON (at which byte), not an object, nested too deep, a number that
// no double holds, a name that the object has twice (objects within it keep the last value of such a name).
nlohmann::json parse_input_object(std::string_view text);

// The same text with null for NaN, Infinity and -Infinity, which Python writes though JSON has none of them.
std::string without_not_numbers(std::string_view text);

}  // namespace offramp
