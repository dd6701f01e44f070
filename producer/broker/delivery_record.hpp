#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// A delivery that did not complete its filling, for the incident report of a dead letter.
struct DeliveryRecord {
    std::uint32_t attempt = 0;
    std::uint64_t pid = 0;
    std::uint64_t session = 0;
    std::uint64_t delivered_at_ns = 0;  // CLOCK_MONOTONIC
    std::uint64_t ended_at_ns = 0;
    std::string end;       // "died", "failed", "rejected", "returned", "visibility timeout", "disconnected"
    bool counted = false;  // the consumer died on it, or reported a failure
    std::string why;       // the consumer's own message, if it gave one
};

}  // namespace offramp
