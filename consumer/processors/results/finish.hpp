#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

struct RunConfig;

// Does what is to be done once, before the programs of a run: looks at what earlier runs left in its outputs, and
// with --overwrite renames a table that is there (RunOutput::set_aside). The launcher has done so with the folder. Of
// results it removes none. May be killed and called again. Errors: ConfigError where results are not Offramp's, or of
// another run, unless --resume continues it; those of RunOutput::look().
void prepare_run(const RunConfig& config);

// Does what is to be done once, when all consumers of a run are gone (`config.run_id`; empty: the one of the checkpoint
// there): finishes what its processors appended to (RunOutput::finish), and removes temporary files of dead consumers.
// May be killed and called again, with the same settings. Errors: those of RunOutput and remove_stale_temporaries().
void finish_run(const RunConfig& config);

// --- custom programs ---
// The output of a custom program's run. No checkpoint records what is done, for only that program knows its samples.
// Consumers that leave a run and return to it continue (OUTPUT/.offramp-own-run names the run). Results of another run
// are added to, by key, on request (--resume), or renamed (--overwrite), never unasked. When its consumers are gone a
// checkpoint records the owner of the results and whether the run ended, so that no later run takes them for its own.

// The source of such a run in the checkpoint's identity.
inline constexpr std::string_view kOwnProgram = "custom program";

// How a program numbers the items of a run whose results are added to.
enum class ItemNumbers {
    CountedAnew,
    Continue  // it kept a checkpoint of the work, and each item has the number that it had
};

// As prepare_run(). `run`: what no other run is called. Errors: ConfigError if there are results of another run and
// neither option is set, if they are those of a run with its own checkpoint, or are to be added to and are kept by the
// items' numbers, which are counted anew; those of RunOutput.
void prepare_own_run(const RunConfig& config, const std::string& run, ItemNumbers numbers = ItemNumbers::CountedAnew);

// A new run begins in this folder: its contents no longer belong to a custom program's run that might return.
void forget_own_run(const std::string& output);

enum class OwnRunEnd {
    Nothing,     // no sample was completed: the results are unchanged
    Unfinished,  // it was stopped, or its program died
    Ended
};
// Like finish_run(), with the kind of end, which only the launcher knows.
void finish_own_run(const RunConfig& config, OwnRunEnd end);

// --- jobs ---
// A shard that is done, counted from 0, and the files in its place by its record, by their paths there.
struct DoneParts {
    std::uint64_t index = 0;
    std::vector<std::string> files;
};

// Makes of what the shards of a job left, each in its place (common/app/program/output_share.hpp) below
// `config.output`, what one run would have appended to, and puts it into `config.output`. `shards`: those that count,
// ascending, of `count` into which an input of `items` was cut. The result of an earlier call is replaced; the places
// stay. May be killed and called again. Errors: those of RunOutput::join().
void join_shards(const RunConfig& config, std::span<const DoneParts> shards, std::uint64_t count, std::uint64_t items);

// The job of the shard that works in this folder, its place (common/app/program/output_share.hpp) or one in that, from
// OUTPUT/.offramp-shards/job.json, which the launcher writes when the job begins. Errors: ConfigError for a folder that
// is not such a place; Error with CannotWrite where that is gone, with SinkUnavailable where it cannot be read, with
// BadInput where it does not say it.
std::string job_of_shard(const std::string& place);

}  // namespace offramp
