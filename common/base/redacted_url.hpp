#pragma once

#include <string>
#include <string_view>

namespace offramp {

// A URL without user and password, which may then be kept and printed: "https://me:word@host/path" gives
// "https://host/path".
std::string without_credentials(std::string_view url);
bool has_credentials(std::string_view url);

// A URL for errors and logs: also without the query, which may hold other secrets.
std::string redacted_url(std::string_view url);

// A URL for files: a query is reduced to a note that there was one. Applying it twice has no further effect.
std::string kept_url(std::string_view url);
// True of what kept_url() gives for a URL with a query: nothing can be reached by it.
bool is_missing_query(std::string_view url);

// A header, "NAME: VALUE" or "@FILE", for files: one in the clear is reduced to a note that there was one. Applying it
// twice has no further effect.
std::string kept_header(std::string_view header);
// True of what kept_header() gives for one in the clear.
bool is_left_out(std::string_view header);

}  // namespace offramp
