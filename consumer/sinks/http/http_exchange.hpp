#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The meaning of a response's status.
enum class HttpVerdict {
    Done,        // 2xx
    TryAgain,    // 408, 425, 429, 5xx: the server is overloaded or broken
    NotThisOne,  // the server refuses this body: any other 4xx
    // the server would refuse every body: the address, method, type or permission is wrong; also redirects, which are
    // not followed
    NothingEver,
};

HttpVerdict verdict_of(long status);

// How long to wait before a retry. The delay doubles from 100 ms to 5 s, of which a random part between half and all is
// used, so that consumers that failed together do not retry together. Pure except for its random numbers. Thread: one.
class RetryDelay {
  public:
    explicit RetryDelay(std::uint32_t seed) : random_(seed) {}

    // The next delay.
    std::chrono::milliseconds next();
    // Call after a success.
    void reset() { tries_ = 0; }

  private:
    std::minstd_rand random_;
    unsigned tries_ = 0;
};

// Reads the headers that a user wants to send: "NAME: VALUE", or "@FILE" for a file with one per line. Empty lines and
// a carriage return at a line's end are ignored. Errors never show a value. Errors: ConfigError for an invalid header
// (with its line and source), or for one that Offramp sets; Error with NoInput or BadInput for a file that cannot be
// read.
std::vector<std::string> read_http_headers(const std::string& setting);

// Errors: ConfigError if the URL contains a user or a password, which the message omits.
void require_no_credentials(const std::string& url);

// The value of a header: the text after "NAME:", without surrounding blanks.
std::string_view http_header_value(std::string_view header);

}  // namespace offramp
