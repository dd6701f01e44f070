#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// A JSON object on a line with its own checksum: {"xxh3":"HASH",REST, where HASH is that of REST. A torn or damaged
// line yields nothing. Pure.

// `body`: an object's text without its opening brace. Returns the line with its end.
std::string sealed_line(std::string_view body);
// The object, without its hash; discarded unless the hash matches. `line`: without its end.
nlohmann::json opened_line(std::string_view line);
// HASH, in 16 hexadecimal digits; empty where there is none.
std::string_view seal_of(std::string_view line);

// Numbers of 64 bits as text, 16 hexadecimal digits each.
std::string as_digits(const std::uint64_t* begin, const std::uint64_t* end);
// False, and nothing is added, unless the text is valid.
bool add_from_digits(std::string_view digits, std::vector<std::uint64_t>& numbers);

}  // namespace offramp
