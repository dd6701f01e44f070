#include "producer/runner/checkpoint/joined_checkpoint.hpp"

#include <unistd.h>

#include <optional>
#include <utility>

#include "common/app/program/shard_place.hpp"
#include "common/app/settings/shard.hpp"
#include "common/base/error.hpp"
#include "common/base/way_to_write.hpp"
#include "common/base/whole_file.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"

namespace offramp {
namespace {

constexpr const char* kShardFact = "--shard";

Checkpoint checkpoint_of(const std::string& output, std::uint64_t index) {
    const std::string path = shard_place(output, index) + "/" + kCheckpointName;
    std::string why = "gone";
    try {
        if (std::optional<Checkpoint> found = read_checkpoint(path)) return std::move(*found);
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::BadInput) throw;
        why = "damaged";
    }
    throw Error(ErrorKind::BadInput, "the shard's checkpoint " + path + " is " + why, to_do_shard_again(output, index));
}

void write(const std::string& output, const Checkpoint& checkpoint) {
    const std::string path = output + "/" + kCheckpointName;
    // The merge holds the folder's lock: it overwrites the file of a killed merge.
    WholeFile file(path, 0644, [&path](int problem) {
        return SystemError("cannot write the checkpoint " + path, problem,
                           way_to_write(problem, "Make the output folder writable") + ", and merge again",
                           ErrorKind::CannotWrite);
    });
    file.write(checkpoint.header_line() + checkpoint.names_lines() + done_lines(checkpoint.done.list()) +
               (checkpoint.ended ? ended_line() : ""));
    file.flush();
    static_cast<void>(file.put_in_place());
    file.flush_name();
}

}  // namespace

void join_checkpoints(const std::string& output, const std::string& run_id, std::span<const DoneShard> shards,
                      std::uint64_t count) {
    std::optional<Checkpoint> joined;
    for (const DoneShard& shard : shards) {
        Checkpoint one = checkpoint_of(output, shard.index);
        one.identity.facts.erase(kShardFact);
        one.identity.facts.erase(CheckpointIdentity::kNumbersOfItems);
        const Shard::Range share = Shard{shard.index + 1, count}.of(one.items());
        if (shard.whole) one.done.add({share.begin, share.end});
        if (!joined) {
            joined = std::move(one);
            continue;
        }
        if (const std::string difference = one.identity.difference_from(joined->identity); !difference.empty())
            throw ConfigError(
                shard_place(output, shard.index) + " holds other work than the shards before it: " + difference,
                "Shards of a job have one input and one model: begin another job");
        for (const ItemRange& range : one.done.list()) joined->done.add(range);
    }
    expect(joined.has_value(), "a job is merged of at least one shard");
    joined->run_id = run_id;
    joined->pid = static_cast<std::uint64_t>(::getpid());
    joined->before = 0;
    // A shard's end does not describe the whole.
    joined->ended = shards.size() == count;
    write(output, *joined);
}

}  // namespace offramp
