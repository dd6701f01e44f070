#pragma once

#include <string>
#include <string_view>

namespace offramp {

struct RunConfig;

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

}  // namespace offramp
