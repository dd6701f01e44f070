#pragma once

#include <cstdint>
#include <string>

#include "common/base/log.hpp"

namespace offramp {

class SettingGroup;

// Which run a program belongs to, and how it is supervised.
struct RunSettings {
    std::string run_dir;              // sockets, status, logs; empty: chosen by the launch script
    std::string run_id;               // names the shared-memory objects
    std::string profile = "default";  // "default", "article"
    std::uint32_t consumers = 0;      // 0: auto
    std::string log_level = "info";
    LogFormat log_format = LogFormat::Text;
    std::string log_file;
    int lifeline_fd = -1;                 // a pipe whose end of file means that the launcher is gone
    std::uint32_t producer_restarts = 3;  // of a producer that dies; the launch script's
    double producer_wait_seconds = 60;    // that a consumer without a launcher waits for another producer; 0: none does
    std::string turn;                     // a file to lock while the model computes; empty: none
    bool recover = false;                 // the command `recover`: continue the run of a dead producer

    bool operator==(const RunSettings&) const = default;
};

void describe_run(SettingGroup& group);

// Actions instead of a run: on the command line only, never part of a printed configuration.
struct ActionSettings {
    bool print_config = false;
    bool list = false;  // names of models, sources, processors

    bool operator==(const ActionSettings&) const = default;
};

void describe_actions(SettingGroup& group);

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
