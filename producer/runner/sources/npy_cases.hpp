#pragma once

#include <memory>
#include <string>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The .npy files directly in a folder, by name, without hidden ones. Empty if it is not a folder. Blocks: on the disk.
std::vector<std::string> arrays_in(const std::string& folder);

// True if the input is a folder with such files and without pictures.
bool has_arrays_alone(const std::string& input);

// Each file is an item with the file's name. The first one sets the type and shape of all. Errors: ConfigError: no
// array (NoInput); NpyRowLayout's, for the first. load(): UnreadableItem for others that differ.
std::unique_ptr<BatchSource> make_npy_cases(const SourceOptions& options);

}  // namespace offramp
