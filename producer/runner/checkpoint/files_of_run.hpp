#pragma once

#include <compare>
#include <string>
#include <vector>

#include "common/settings/sections/result_settings.hpp"
#include "producer/runner/checkpoint/checkpoint_identity.hpp"

namespace offramp {

// What says which files of single items are a run's: its processors, and where `write` put its own. As its checkpoint
// has it.
struct FilesOfRun {
    std::string processors;  // "npy,write"
    std::string write_path;

    static FilesOfRun of(const CheckpointIdentity& identity);
    // Its processors whose files lie where such files of a run with these settings go. `other_path`: where `write` puts
    // its own in that run. Blocks: on the file system, of which it asks what a path leads to.
    std::vector<std::string> output_paths(const ResultSettings& config, const std::string& other_path) const;

    auto operator<=>(const FilesOfRun&) const = default;
};

}  // namespace offramp
