#pragma once

#include <compare>
#include <string>
#include <vector>

#include "common/app/settings/sections/result_settings.hpp"
#include "producer/runner/checkpoint/checkpoint_identity.hpp"

namespace offramp {

// Identifies a run's files of single items: its processors, and the folder of `write`. From the run's checkpoint.
struct FilesOfRun {
    std::string processors;  // "npy,write"
    std::string write_path;

    static FilesOfRun of(const CheckpointIdentity& identity);
    // Its processors whose files are where a run with these settings puts the same kind. `other_path`: the folder of
    // `write` in that run. Blocks: on the file system, to resolve paths.
    std::vector<std::string> output_paths(const ResultSettings& config, const std::string& other_path) const;

    auto operator<=>(const FilesOfRun&) const = default;
};

}  // namespace offramp
