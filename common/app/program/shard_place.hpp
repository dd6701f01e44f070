#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// What a shard of a job keeps apart from the others' while it runs: lock, checkpoint, and what its consumers append to
// together. Results of single samples lie in OUTPUT itself. Shards are counted from 0.
//
//   OUTPUT/.offramp-shards/7/             an output folder as any run's, but for files of single samples
//
// launch/offramp_launch/jobs/folder.py knows it too.
std::string shard_place(const std::string& output, std::uint64_t index);
// Of a shard that is done, and whose files are damaged or gone: for errors. With either of the two left, what is gone
// would count as done. jobs/merge.py says the same.
std::string to_do_shard_again(const std::string& output, std::uint64_t index);

}  // namespace offramp
