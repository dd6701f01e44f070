#pragma once

#include <string>
#include <string_view>

namespace offramp {

// The URL without user and password, safe to store and print: "https://me:word@host/path" becomes "https://host/path".
std::string without_credentials(std::string_view url);
bool has_credentials(std::string_view url);

// The URL for errors and logs: also without the query, which may contain other secrets.
std::string redacted_url(std::string_view url);

// The URL for files: a note replaces the query. Idempotent.
std::string kept_url(std::string_view url);
// True for the result of kept_url() for a URL with a query: such a URL is unusable.
bool is_missing_query(std::string_view url);

// The header, "NAME: VALUE" or "@FILE", for files: a note replaces a header in the clear. Idempotent.
std::string kept_header(std::string_view header);
// True for the result of kept_header() for a header in the clear.
bool is_left_out(std::string_view header);

}  // namespace offramp
