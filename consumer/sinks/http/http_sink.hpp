#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "consumer/sinks/http/http_exchange.hpp"

namespace offramp {

// Where results are posted to, and how patiently.
struct HttpTarget {
    std::string url;
    std::vector<std::string> headers;  // "NAME: VALUE", sent with each request; values are never shown
    std::string ca_file;               // the authorities that may vouch for the server, in PEM; empty: the system's
    std::chrono::seconds timeout{30};  // nothing moves for so long: the request is given up and tried again
    // with one message: requests and the pauses between them, but for those that the server asked for
    std::chrono::seconds patience{20};
};

// One result on its way. Borrows everything.
struct HttpMessage {
    std::string_view what;  // for errors: "sample 'a/b.jpg', output 'scores'"
    std::span<const std::string> headers;
    std::span<const std::byte> body;
};

// Posts messages to one server over one connection, which is kept open.
//
// A message that the server cannot take now (408, 425, 429, 5xx), that it does not answer, or that does not reach it,
// is sent again: after RetryDelay, and not before a Retry-After has passed (of which five minutes are waited for). So
// the server may get a message several times, also one that it answered. An answer that is not complete after the
// patience counts by its status, or, where not even its headers are there, as none.
//
// Owns the connection. Thread: one. Blocks: on the network, no longer than patience, timeout and what Retry-After asks
// for; `progress` is called meanwhile. Errors: Error with SinkUnavailable when patience is over; ConfigError for a URL
// or a file of authorities that cannot be used, a certificate that does not hold, and an answer that every message
// would get; Error with System for an answer that refuses this message. They name status, URL (without credentials and
// query), message and the first bytes of the answer, in which headers' values are blotted out.
class HttpSink {
  public:
    explicit HttpSink(HttpTarget target);
    ~HttpSink();
    HttpSink(const HttpSink&) = delete;
    HttpSink& operator=(const HttpSink&) = delete;

    // Returns true when the server has taken it; false if it was given up because `wanted`, called before each request,
    // during it and in pauses, returned false.
    bool post(const HttpMessage& message, const std::function<void()>& progress, const std::function<bool()>& wanted);

  private:
    class Connection;
    struct Outcome;

    std::string described(const Outcome& outcome) const;
    std::string answer_of(const Outcome& outcome) const;
    [[noreturn]] void refuse(const HttpMessage& message, const Outcome& outcome) const;
    bool pause(std::chrono::milliseconds length, const std::function<void()>& progress,
               const std::function<bool()>& wanted) const;

    HttpTarget target_;
    std::string shown_;
    std::vector<std::string> secrets_;
    RetryDelay delay_;
    std::unique_ptr<Connection> connection_;
};

}  // namespace offramp
