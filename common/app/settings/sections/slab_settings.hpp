#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// The memory that outputs leave the device in.
struct SlabSettings {
    std::string device = "auto";         // "auto", "cpu", "cuda", "cuda:N"
    std::uint32_t slabs = 0;             // 0: auto
    std::uint32_t samples_per_slab = 0;  // 0: auto
    std::uint32_t batches_per_slab = 0;  // whole small batches that share a slab; 0: auto
    double max_delay_seconds = 0.002;    // a batch waits at most so long for others to share its slab
    bool allow_unpinned = false;
    std::string when_full = "block";  // no slab is free for an output: "block", "drop", "spill"
    std::string spill_dir;            // of "spill"; empty: the run directory's folder live/spill/

    bool operator==(const SlabSettings&) const = default;
};

void describe_slabs(SettingGroup& group);

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
