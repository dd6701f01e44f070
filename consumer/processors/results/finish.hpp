#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

struct RunConfig;

// Prepares the outputs, once before the programs of a run start: inspects the results of earlier runs, and with
// --overwrite renames an existing table (RunOutput::set_aside). The launcher has already renamed the folder. Removes no
// results. May be killed and called again. Errors: ConfigError for results that are not Offramp's, or that belong to
// another run which --resume does not continue; those of RunOutput::look().
void prepare_run(const RunConfig& config);

// Finishes the outputs, once after all consumers of a run have ended: those that its processors append to
// (RunOutput::finish). Also removes temporary files of dead consumers. `config.run_id`: the run; empty: the run in the
// output's checkpoint. May be killed and called again, with the same settings. Errors: those of RunOutput and
// remove_stale_temporaries().
void finish_run(const RunConfig& config);

// --- custom programs ---
// The output of a custom program's run. Only the program knows its samples, so no checkpoint records which are done.
// Consumers may leave the run and return to it (OUTPUT/.offramp-own-run names the run). Results of another run are
// changed only on request: --resume adds to them by key, --overwrite renames them. After its consumers have ended, a
// checkpoint records the owner of the results and whether the run ended, so that no later run mistakes them for its
// own.

// The source of such a run in the checkpoint's identity.
inline constexpr std::string_view kOwnProgram = "custom program";

// How a program numbers items when its run adds to earlier results.
enum class ItemNumbers {
    CountedAnew,
    Continue  // the program kept a checkpoint, and each item keeps its number
};

// Like prepare_run(), for a custom program. `run`: the run's unique name. Errors: ConfigError if results of another run
// exist and neither option is set, or if they belong to a run with its own checkpoint. Also ConfigError if they are to
// be added to, are kept by item number, and the items are numbered anew. Further errors: those of RunOutput.
void prepare_own_run(const RunConfig& config, const std::string& run, ItemNumbers numbers = ItemNumbers::CountedAnew);

// A new run begins in this folder: forgets the custom program's run that might have returned to it.
void forget_own_run(const std::string& output);

enum class OwnRunEnd {
    Nothing,     // completed no sample: the results are unchanged
    Unfinished,  // was stopped, or its program died
    Ended
};
// Like finish_run(), for a custom program. Only the launcher knows how the run ended.
void finish_own_run(const RunConfig& config, OwnRunEnd end);

// --- jobs ---
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
