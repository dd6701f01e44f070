#pragma once

#include <cstdint>
#include <span>

namespace offramp {

struct RunConfig;

// Makes of what the shards of a job left, each in its place (common/program/shard_place.hpp) below `config.output`,
// what one run would have appended to, and puts it into `config.output`. `shards`: those that count, from 0, ascending,
// of `count` into which an input of `items` was cut. What was there of an earlier call is replaced; the places stay.
// May be killed and called again. Errors: those of RunOutput::join().
void join_shards(const RunConfig& config, std::span<const std::uint64_t> shards, std::uint64_t count,
                 std::uint64_t items);

}  // namespace offramp
