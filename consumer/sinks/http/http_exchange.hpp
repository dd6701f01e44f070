#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The meaning of an answer's status.
enum class HttpVerdict {
    Done,        // 2xx
    TryAgain,    // 408, 425, 429, 5xx: the server is busy or ill
    NotThisOne,  // it refuses this body: any other 4xx
    // it would refuse every body: the address, the method, the type or the right to send is wrong; and redirects, which
    // are not followed
    NothingEver,
};

HttpVerdict verdict_of(long status);

// How long to wait before something is tried again: doubles from 100 ms to 5 s, and of each a random part, between half
// and all, so that consumers that failed together do not come back together. Pure but for its random numbers. Thread:
// one.
class RetryDelay {
  public:
    explicit RetryDelay(std::uint32_t seed) : random_(seed) {}

    // The next one.
    std::chrono::milliseconds next();
    // After a success.
    void reset() { tries_ = 0; }

  private:
    std::minstd_rand random_;
    unsigned tries_ = 0;
};

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
