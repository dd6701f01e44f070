#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace offramp {

// A completed shard of a job, counted from 0.
struct DoneShard {
    std::uint64_t index = 0;
    bool whole = true;  // no item of its share was skipped, dropped or dead-lettered
};

// Creates OUTPUT's checkpoint from those of a job's shards (common/app/program/shard_place.hpp). It is the checkpoint
// of a run of the whole input, named `run_id`, with their completed items; it has ended if all `count` shards are
// there. A later run with --resume continues it. `shards`: ascending. Blocks: on the file system. Errors: ConfigError
// if one is of other work than the others; Error with BadInput if one cannot be read; SystemError with CannotWrite. One
// merge at a time: the caller holds the lock of OUTPUT.
void join_checkpoints(const std::string& output, const std::string& run_id, std::span<const DoneShard> shards,
                      std::uint64_t count);

}  // namespace offramp
