#pragma once

#include <memory>
#include <string>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The .npy files that lie in a folder itself, in the order of their names; hidden ones are left out. None where it is
// no folder. Blocks: on the disk.
std::vector<std::string> arrays_in(const std::string& folder);

// Whether an input is a folder with such files and without pictures.
bool has_arrays_alone(const std::string& input);

// Each of them as an item, called after its file. The first says what all are like. Errors: ConfigError: no array
// (NoInput); NpyRowLayout's, of the first. load(): UnreadableItem for others that are not like it.
std::unique_ptr<BatchSource> make_npy_cases(const SourceOptions& options);

}  // namespace offramp
