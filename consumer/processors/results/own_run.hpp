#pragma once

#include <string>
#include <string_view>

namespace offramp {

struct RunConfig;

// The output of a custom program's run. No checkpoint records what is done, for only that program knows its samples.
// Consumers that leave a run and return to it continue (OUTPUT/.offramp-own-run names the run). Results of another run
// are added to, by key, on request (--resume), or renamed (--overwrite), never unasked. When its consumers are gone a
// checkpoint records the owner of the results and whether the run ended, so that no later run takes them for its own.

// The source of such a run in the checkpoint's identity.
inline constexpr std::string_view kOwnProgram = "a program of one's own";

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

}  // namespace offramp
