#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// A run's measurements, beside its results.
struct MeasuringSettings {
    std::uint64_t warmup_batches = 5;   // left out of the steady-state rates
    bool drain_warmup = false;          // everything is delivered before the measured batches start
    std::uint64_t measure_limits = 0;   // batches of compute alone and of bare copies, measured in the same run
    std::uint64_t profile_batches = 0;  // behind the warm-up, between cudaProfilerStart and cudaProfilerStop
    std::string trace_dir;              // each program leaves its time ranges here; empty: none are recorded
    double status_seconds = 0.5;        // from one status.json to the next

    bool operator==(const MeasuringSettings&) const = default;
};

void describe_measuring(SettingGroup& group);

}  // namespace offramp
