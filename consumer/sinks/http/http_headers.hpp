#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The headers that a user wants sent: "NAME: VALUE" is one, "@FILE" means those of a file, one a line; empty lines and
// a carriage return at a line's end do not count. No error shows a value. Errors: ConfigError for a line that is not a
// header (which line, of what) and for a header that is ours to set; Error with NoInput or BadInput for a file that
// cannot be read.
std::vector<std::string> read_http_headers(const std::string& setting);

// Errors: ConfigError where the URL has a user or a password in it, which is not shown.
void require_no_credentials(const std::string& url);

// The value of a header: the text after "NAME:", without blanks around it.
std::string_view http_header_value(std::string_view header);

}  // namespace offramp
