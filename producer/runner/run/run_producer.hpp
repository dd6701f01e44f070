#pragma once

#include <memory>

#include "common/app/settings/run_config.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// The differences between the programs that use the runner.
struct ProducerProgram {
    const char* name;  // in --help, --version and messages
    // How outputs leave the device with these settings; null if another program handles it. Errors: ConfigError.
    std::unique_ptr<EgressStrategy> (*choose_egress)(const RunConfig& config);
};

// A program from its command line to its exit code: produces for a run, or executes --print-config, --list or a
// command: recover, sweep, probe; for the launcher job-facts, join-shards. Thread: main's. Blocks: for the length of
// the run. Errors: none; they are logged, and reflected in the exit code.
int run_producer(int argc, const char* const* argv, const ProducerProgram& program) noexcept;

}  // namespace offramp
