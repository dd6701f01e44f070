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

// The destination of posted results, and how long to keep trying.
struct HttpTarget {
    std::string url;
    std::vector<std::string> headers;  // "NAME: VALUE", sent with each request; values are never displayed
    // certificate authorities in PEM that may vouch for the server; empty: the system's
    std::string ca_file;
    std::chrono::seconds timeout{30};  // after this time without traffic the request is aborted and retried
    // per message: requests and the pauses between them, except pauses that the server requests
    std::chrono::seconds patience{20};
};

// One result to send. Borrows everything.
struct HttpMessage {
    std::string_view what;  // for errors: "sample 'a/b.jpg', output 'scores'"
    std::span<const std::string> headers;
    std::span<const std::byte> body;
};

// Posts messages to one server over one connection, which it keeps open.
//
// It resends a message that the server cannot take now (408, 425, 429, 5xx), does not answer, or does not receive. It
// waits for RetryDelay, and until Retry-After has passed (at most five minutes). So the server may get a message
// several times, even one that it has answered. A response that is still incomplete `patience` after its first line
// counts by its status; without complete headers it counts as missing.
//
// Owns the connection. Thread: one. Blocks: on the network, for at most patience, timeout and the Retry-After; it calls
// `progress` meanwhile.
//
// Errors: Error with SinkUnavailable when the patience ends; ConfigError for an unusable URL or authority file, an
// invalid certificate, and a response that every message would get; Error with System for a response that refuses this
// message. They name status, URL (without credentials and query), message and the first bytes of the response, with
// headers' values redacted.
class HttpSink {
  public:
    explicit HttpSink(HttpTarget target);
    ~HttpSink();
    HttpSink(const HttpSink&) = delete;
    HttpSink& operator=(const HttpSink&) = delete;

    // Returns true when the server has accepted the message. Returns false if `wanted` returned false; it is called
    // before and during each request, and in pauses.
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
