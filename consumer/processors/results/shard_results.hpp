#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace offramp {

struct RunConfig;

// A finished shard, counted from 0, and the paths of the files in its place according to its record.
struct DoneParts {
    std::uint64_t index = 0;
    std::vector<std::string> files;
};

// Joins the results of a job's shards, each in its place below `config.output` (common/app/program/output_share.hpp),
// as one run would have written them, and puts them into `config.output`. `shards`: the shards to include, ascending,
// out of `count` into which an input of `items` was split. Replaces the result of an earlier call; the places stay. May
// be killed and called again. Errors: those of RunOutput::join().
void join_shards(const RunConfig& config, std::span<const DoneParts> shards, std::uint64_t count, std::uint64_t items);

// The job of the shard that works in this folder: the shard's place (common/app/program/output_share.hpp), or a folder
// in it. Reads OUTPUT/.offramp-shards/job.json, which the launcher writes when the job begins. Errors: ConfigError for
// a folder outside such a place; Error with CannotWrite when the file is gone, SinkUnavailable when it cannot be read,
// BadInput when it does not name the job.
std::string job_of_shard(const std::string& place);

}  // namespace offramp
