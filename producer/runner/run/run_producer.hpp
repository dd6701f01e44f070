#pragma once

#include <memory>

#include "common/settings/run_config.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// What makes a program of the runner: all else is the same in each.
struct ProducerProgram {
    const char* name;  // in --help, --version and messages
    // How outputs leave the device with these settings; null where another program is for it. Errors: ConfigError.
    std::unique_ptr<EgressStrategy> (*choose_egress)(const RunConfig& config);
};

// A program from its command line to its exit code: produces for a run, or does what --print-config, --list or a
// command asks for (recover, sweep, probe; of the launcher: job-facts, join-shards). Thread: main's. Blocks: for the
// length of the run. Errors: none; they are logged, and the exit code says them.
int run_producer(int argc, const char* const* argv, const ProducerProgram& program) noexcept;

}  // namespace offramp
