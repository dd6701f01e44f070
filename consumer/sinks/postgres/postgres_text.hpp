#pragma once

#include <string>
#include <string_view>

namespace offramp {

// A text as PostgreSQL holds it. In a text that is not UTF-8, or has a NUL or a "\x", bytes that cannot be stored
// become \xHH, and so does '\': two texts never become one.
std::string postgres_text(std::string_view text);

// JSON as PostgreSQL's jsonb holds it: a NUL in a string, which JSON writes \u0000 and jsonb refuses, is the text \x00.
// `json` is well-formed.
std::string postgres_json(std::string_view json);

}  // namespace offramp
