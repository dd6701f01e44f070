#pragma once

#include <optional>
#include <string>

#include "common/app/settings/run_config.hpp"

// The producer's answers to a launcher about a job, whose input is processed in shards
// (launch/guide/many-gpus-and-hosts.md). No run, no model, no device.
namespace offramp {

// {"items": N, "identity": {...}}: the size of the job's input, and its identity (CheckpointIdentity, without the
// shard). `config`: resolved. If `list` is given and the input is a folder of images, its contents are written there
// (--input-list). Blocks: on the file system. Errors: those of the source; ConfigError for an input that only the model
// can count; SystemError with CannotWrite.
std::string job_facts(const RunConfig& config, const std::string& list);

// join_checkpoints() of the shards listed on standard input, one per line: "7 whole", or "7" if some of its items are
// not done. `count`: of the job's shards. Errors: as there; ConfigError.
void join_shards_named(const std::string& output, const std::string& run_id, const std::string& count);

}  // namespace offramp
