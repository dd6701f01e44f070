#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// One delivery of a filling that did not complete it: what the incident report of a dead letter is made of.
struct DeliveryRecord {
    std::uint32_t attempt = 0;
    std::uint64_t pid = 0;
    std::uint64_t session = 0;
    std::uint64_t delivered_at_ns = 0;  // CLOCK_MONOTONIC
    std::uint64_t ended_at_ns = 0;
    std::string end;       // "died", "failed", "rejected", "returned", "visibility timeout", "disconnected"
    bool counted = false;  // the consumer died working on it, or said that it failed
    std::string why;       // in the consumer's words, where it gave any
};

}  // namespace offramp
