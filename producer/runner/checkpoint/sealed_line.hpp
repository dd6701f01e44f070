#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// A JSON object on a line with its own checksum: {"xxh3":"HASH",REST, where HASH is the hash of REST. Reading a torn or
// damaged line returns a discarded value. Pure.

// `body`: an object's text without its opening brace. Returns the line, including its line end.
std::string sealed_line(std::string_view body);
// The object without its hash; a discarded value if the hash does not match. `line`: without its line end.
nlohmann::json opened_line(std::string_view line);
// HASH, in 16 hexadecimal digits; empty if the line has none.
std::string_view seal_of(std::string_view line);

// 64-bit numbers as text, 16 hexadecimal digits each.
std::string as_digits(const std::uint64_t* begin, const std::uint64_t* end);
// Returns false, and adds nothing, if the text is invalid.
bool add_from_digits(std::string_view digits, std::vector<std::uint64_t>& numbers);

}  // namespace offramp
