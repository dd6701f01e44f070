#pragma once

#include <optional>
#include <string>

#include "common/settings/run_config.hpp"

// What the launcher asks a producer for a job, whose input is worked on in shards
// (launch/guide/many-gpus-and-hosts.md). No run, no model, no device.
namespace offramp {

// {"items": N, "identity": {...}}: what the job's input has, and what makes it this work (CheckpointIdentity, without
// the shard). `config`: resolved. Where `list` is given and the input is a folder of images, what lies in it is written
// there (--input-list). Blocks: on the file system. Errors: those of the source; ConfigError for an input that only the
// model can count; SystemError with CannotWrite.
std::string job_facts(const RunConfig& config, const std::string& list);

// join_checkpoints() of the shards that standard input names, one a line: "7 whole", or "7" where some of its items are
// not done. `count`: of the job's shards. Errors: as there; ConfigError.
void join_shards_named(const std::string& output, const std::string& run_id, const std::string& count);

}  // namespace offramp
