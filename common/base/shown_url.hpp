#pragma once

#include <string>
#include <string_view>

namespace offramp {

// A URL without user and password, which may then be kept and printed: "https://me:word@host/path" gives "https://host/path".
std::string without_credentials(std::string_view url);
bool has_credentials(std::string_view url);

// As errors and logs show it: without the query, too, where other secrets stand.
std::string shown_url(std::string_view url);

}  // namespace offramp
