#pragma once

#include <optional>
#include <string>
#include <vector>

namespace offramp {

// The record in OUTPUT/.offramp-checkpoint (producer/runner/checkpoint/checkpoint_file.hpp) of the last run with a
// result: the owners and places of results.
struct PreviousRun {
    std::string run_id;
    std::vector<std::string> processors;
    bool ended = false;           // it came to its end by itself
    bool of_own_program = false;  // begun by a custom program (own_run.hpp)
};

// Nothing if the checkpoint is missing or unreadable: then the run cannot be continued, either. Never follows a link.
std::optional<PreviousRun> read_previous_run(const std::string& output);
bool has_checkpoint(const std::string& output);  // whether it can be read or not

}  // namespace offramp
