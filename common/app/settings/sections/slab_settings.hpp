#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// The memory that receives outputs from the device.
struct SlabSettings {
    std::string device = "auto";         // "auto", "cpu", "cuda", "cuda:N"
    std::uint32_t slabs = 0;             // 0: auto
    std::uint32_t samples_per_slab = 0;  // 0: auto
    std::uint32_t batches_per_slab = 0;  // whole small batches that share a slab; 0: auto
    double max_delay_seconds = 0.002;    // maximum wait of a batch for others to share its slab
    bool allow_unpinned = false;
    std::string when_full = "block";  // reaction if no slab is free: "block", "drop", "spill"
    std::string spill_dir;            // for "spill"; empty: live/spill/ in the run directory

    bool operator==(const SlabSettings&) const = default;
};

void describe_slabs(SettingGroup& group);

// How slabs are delivered to consumers, and the limits for consumers that do not return them.
struct DeliverySettings {
    double visibility_timeout = 30;
    bool kill_stalled = false;  // kill a consumer without progress for this long
    std::uint32_t max_failures = 3;
    std::uint32_t window = 0;   // slabs that a consumer holds concurrently; 0: auto (2, more for small slabs)
    std::string consumer_user;  // consumers run as this user: group-readable objects and sockets

    bool operator==(const DeliverySettings&) const = default;
};

void describe_delivery(SettingGroup& group);

}  // namespace offramp
