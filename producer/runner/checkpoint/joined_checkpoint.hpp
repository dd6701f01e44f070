#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace offramp {

// A shard of a job that is done, counted from 0.
struct DoneShard {
    std::uint64_t index = 0;
    bool whole = true;  // no item of its share was skipped, dropped or dead-lettered
};

// Makes one checkpoint for OUTPUT of those that a job's shards left in their places (common/program/shard_place.hpp):
// that of a run of the whole input, named `run_id`, which has done what they have, and has come to its end where all
// `count` are there. A later run with --resume goes on from it. `shards`: ascending. Blocks: on the file system.
// Errors: ConfigError where one is of other work than the others; Error with BadInput where one cannot be read;
// SystemError with CannotWrite. Of one merge at a time: who calls it has the lock of OUTPUT.
void join_checkpoints(const std::string& output, const std::string& run_id, std::span<const DoneShard> shards,
                      std::uint64_t count);

}  // namespace offramp
