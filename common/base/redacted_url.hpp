#pragma once

#include <string>
#include <string_view>

namespace offramp {

// A URL without user and password, which may then be kept and printed: "https://me:word@host/path" gives
// "https://host/path".
std::string without_credentials(std::string_view url);
bool has_credentials(std::string_view url);

// As errors and logs show it: without the query, too, where other secrets stand.
std::string redacted_url(std::string_view url);

// As files keep it: of a query only that there was one. Of a URL that was kept so it is the same.
std::string kept_url(std::string_view url);
// True of what kept_url() gives for a URL with a query: nothing can be reached by it.
bool is_missing_query(std::string_view url);

// Of a header, "NAME: VALUE" or "@FILE", as files keep it: of one in the clear only that there was one. Of one that was
// kept so it is the same.
std::string kept_header(std::string_view header);
// True of what kept_header() gives for one in the clear.
bool is_left_out(std::string_view header);

}  // namespace offramp
