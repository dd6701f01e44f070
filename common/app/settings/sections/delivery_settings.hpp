#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// How slabs reach consumers, and what is held against those who keep them.
struct DeliverySettings {
    double visibility_timeout = 30;
    bool kill_stalled = false;  // a consumer without progress for so long is killed
    std::uint32_t max_failures = 3;
    std::uint32_t window = 0;   // slabs that a consumer holds concurrently; 0: auto, 2 or, for small slabs, more
    std::string consumer_user;  // consumers run as this user: group-readable objects and sockets

    bool operator==(const DeliverySettings&) const = default;
};

void describe_delivery(SettingGroup& group);

}  // namespace offramp
