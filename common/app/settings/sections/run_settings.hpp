#pragma once

#include <cstdint>
#include <string>

#include "common/base/log.hpp"

namespace offramp {

class SettingGroup;

// The run that a program belongs to, and its supervision.
struct RunSettings {
    std::string run_dir;              // sockets, status, logs; empty: chosen by the launch script
    std::string run_id;               // names the shared-memory objects
    std::string profile = "default";  // "default", "article"
    std::uint32_t consumers = 0;      // 0: auto
    std::string log_level = "info";
    LogFormat log_format = LogFormat::Text;
    std::string log_file;
    int lifeline_fd = -1;                 // a pipe; its end of file means that the launcher is gone
    std::uint32_t producer_restarts = 3;  // restarts of a dead producer, for the launch script
    double producer_wait_seconds = 60;    // time that a consumer without a launcher waits for a new producer; 0: none
    std::string turn;                     // a file that is locked while the model computes; empty: none
    bool recover = false;                 // the command `recover`: continue a dead producer's run

    bool operator==(const RunSettings&) const = default;
};

void describe_run(SettingGroup& group);

// Actions that replace a run: on the command line only, never part of a printed configuration.
struct ActionSettings {
    bool print_config = false;
    bool list = false;  // names of models, sources, processors

    bool operator==(const ActionSettings&) const = default;
};

void describe_actions(SettingGroup& group);

// A run's measurements, beside its results.
struct MeasuringSettings {
    std::uint64_t warmup_batches = 5;   // excluded from the steady-state rates
    bool drain_warmup = false;          // deliver everything before the measured batches start
    std::uint64_t measure_limits = 0;   // batches to measure with compute alone and with bare copies, in the same run
    std::uint64_t profile_batches = 0;  // after the warm-up, between cudaProfilerStart and cudaProfilerStop
    std::string trace_dir;              // folder for each program's time ranges; empty: not recorded
    double status_seconds = 0.5;        // interval between updates of status.json

    bool operator==(const MeasuringSettings&) const = default;
};

void describe_measuring(SettingGroup& group);

}  // namespace offramp
