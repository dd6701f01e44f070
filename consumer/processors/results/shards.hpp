#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace offramp {

struct RunConfig;

// A shard that is done, counted from 0, and the files in its place by its record, by their paths there.
struct DoneParts {
    std::uint64_t index = 0;
    std::vector<std::string> files;
};

// Makes of what the shards of a job left, each in its place (common/app/program/shard_place.hpp) below `config.output`,
// what one run would have appended to, and puts it into `config.output`. `shards`: those that count, ascending, of
// `count` into which an input of `items` was cut. The result of an earlier call is replaced; the places stay. May be
// killed and called again. Errors: those of RunOutput::join().
void join_shards(const RunConfig& config, std::span<const DoneParts> shards, std::uint64_t count, std::uint64_t items);

// The job of the shard that works in this folder, its place (common/app/program/shard_place.hpp) or one in that, from
// OUTPUT/.offramp-shards/job.json, which the launcher writes when the job begins. Errors: ConfigError for a folder that
// is not such a place; Error with CannotWrite where that is gone, with SinkUnavailable where it cannot be read, with
// BadInput where it does not say it.
std::string job_of_shard(const std::string& place);

}  // namespace offramp
