#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace offramp {

// From JSON's text and to it. nlohmann's parser and writer are compiled here and nowhere else: a file that calls its
// parse() compiles the whole of it once more, which takes up to ten seconds under a sanitizer.

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
