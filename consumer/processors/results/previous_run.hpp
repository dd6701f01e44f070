#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace offramp {

// The record in OUTPUT/.offramp-checkpoint (producer/runner/checkpoint/checkpoint_file.hpp) of the last run with a
// result: the owners and places of results.
struct PreviousRun {
    std::string run_id;
    std::vector<std::string> processors;
    std::string write_path;  // of --processor write
    std::string next_place;  // empty: in place
    bool ended = false;      // it came to its end by itself
    bool finished = false;   // so, or the run did that it goes on with, for items that joined
    std::uint64_t left = 0;  // items of its source that are not done: dropped, skipped or dead letters where it ended
    bool of_own_program = false;  // begun by a custom program (own_run.hpp)
};

// Nothing if the checkpoint is missing or unreadable: then the run cannot be continued, either. Never follows a link.
// Errors: ConfigError for a place that Offramp did not create.
std::optional<PreviousRun> read_previous_run(const std::string& output);
bool has_checkpoint(const std::string& output);  // whether it can be read or not

}  // namespace offramp
