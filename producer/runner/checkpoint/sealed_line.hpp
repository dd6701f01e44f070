#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// A JSON object on a line that bears itself out: {"xxh3":"HASH",REST, where HASH is that of REST. Torn or damaged it
// says nothing. Pure.

// `body`: an object's text without its opening brace. With the end of the line.
std::string sealed_line(std::string_view body);
// The object, without its hash; discarded unless the hash is that of the rest. `line`: without its end.
nlohmann::json opened_line(std::string_view line);
// HASH, in 16 hexadecimal digits; empty where there is none.
std::string_view seal_of(std::string_view line);

// Numbers of 64 bits as text, 16 hexadecimal digits each.
std::string as_digits(const std::uint64_t* begin, const std::uint64_t* end);
// False, and nothing is added, when it is not such a text.
bool add_from_digits(std::string_view digits, std::vector<std::uint64_t>& numbers);

}  // namespace offramp
