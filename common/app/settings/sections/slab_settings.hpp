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
    std::string spill_dir;            // of "spill"; empty: the run directory's folder spill/

    bool operator==(const SlabSettings&) const = default;
};

void describe_slabs(SettingGroup& group);

}  // namespace offramp
