#pragma once

#include <string>
#include <string_view>

namespace offramp {

struct RunConfig;

// The output of a custom program's run. What is done of it no checkpoint says, for which samples there
// are, only that program knows. Consumers that leave a run and come back to it go on (OUTPUT/.offramp-own-run names the
// run). Results of another run are added to, by key, when that is asked for (--resume), or replaced (--overwrite),
// never unasked. When its consumers are gone a checkpoint says whose the results are and whether the run came to its
// end, so that no later run takes them for its own.

// What the checkpoint's identity calls the source of such a run.
inline constexpr std::string_view kOwnProgram = "a program of one's own";

// How a program numbers the items of a run whose results are added to.
enum class ItemNumbers {
    CountedAnew,
    Continue  // it kept a checkpoint of the work, and each item has the number that it had
};

// As prepare_run(). `run`: what no other run is called. Errors: ConfigError where results of another run lie and
// neither was asked for, they are those of a run with a checkpoint of its own, or are to be added to and are kept by
// the items' numbers, which are counted anew; those of RunOutput.
void prepare_own_run(const RunConfig& config, const std::string& run, ItemNumbers numbers = ItemNumbers::CountedAnew);

// Another run begins in this folder: what lies there is not the own run's any more that had left it to come back.
void forget_own_run(const std::string& output);

enum class OwnRunEnd {
    Nothing,     // no sample was completed: what lies there is as it was
    Unfinished,  // it was stopped, or its program died
    Ended
};
// As finish_run(), with how it ended, which only the launcher knows.
void finish_own_run(const RunConfig& config, OwnRunEnd end);

}  // namespace offramp
