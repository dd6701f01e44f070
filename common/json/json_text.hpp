#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace offramp {

// Parses and writes JSON texts. Only json_text.cpp compiles nlohmann's parser and writer: each further file that calls
// parse() takes up to ten seconds more under a sanitizer.

// Errors: nlohmann::json::exception, with the byte at which the text breaks.
nlohmann::json parse_json(std::string_view text);
// The same; `on_event` sees each part, and can drop it.
nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& on_event);
// Returns a value with is_discarded() if the text is not JSON.
nlohmann::json parse_json_or_discard(std::string_view text);

// On one line, or with `indent` spaces a level. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace offramp
