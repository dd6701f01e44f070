#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// The separate folder of a running shard of a job: lock, checkpoint, and the files that its consumers append to
// together. Results of single samples are in OUTPUT itself. Shards are counted from 0.
//
//   OUTPUT/.offramp-shards/7/             an output folder as any run's, but for files of single samples
//
// launch/offramp_launch/jobs/folder.py knows it too.
std::string shard_place(const std::string& output, std::uint64_t index);
// The fix for a done shard with damaged or missing files: for errors. If either of the two was left, missing results
// would count as done. jobs/merge.py has the same text.
std::string to_do_shard_again(const std::string& output, std::uint64_t index);

}  // namespace offramp
