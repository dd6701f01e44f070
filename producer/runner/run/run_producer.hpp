#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/app/settings/run_config.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// The differences between the programs that use the runner.
struct ProducerProgram {
    const char* name;  // as shown in --help, --version and messages
    // How outputs leave the device with these settings; null if another program handles it. Errors: ConfigError.
    std::unique_ptr<EgressStrategy> (*choose_egress)(const RunConfig& config);
};

// A program from its command line to its exit code: produces for a run, or executes --print-config, --list or a
// command: recover, sweep, probe; for the launcher job-facts, join-shards. Thread: main's. Blocks: for the length of
// the run. Errors: none; they are logged, and reflected in the exit code.
int run_producer(int argc, const char* const* argv, const ProducerProgram& program) noexcept;

// Answers a launcher's question about a job, whose input is processed in shards (launch/guide/many-gpus-and-hosts.md),
// without run, model or device. Returns {"items": N, "identity": {...}}: the size of the job's input, and its identity
// (CheckpointIdentity, without the shard). `config`: resolved. If `list` is set and the input is a folder of images,
// writes its contents to that file (--input-list). With `list`, also writes LIST.index and LIST.items for a list of
// images that can have an index (ListIndex); if they cannot be written, "unwritten" is the reason. With --input-index,
// reads that index instead of the list. Blocks: on the file system. Errors: those of the source; ConfigError for an
// input that only the model can count, or that results in --output could replace; SystemError with CannotWrite.
std::string job_facts(const RunConfig& config, const std::string& list);

// Calls join_checkpoints() for the shards listed on standard input, one per line: "7 whole", or "7" if some of its
// items are not done. `count`: the number of the job's shards. Errors: those of join_checkpoints(); ConfigError.
void join_shards_named(const std::string& output, const std::string& run_id, const std::string& count);

}  // namespace offramp
