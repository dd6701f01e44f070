#pragma once

#include <memory>
#include <string>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The rows of several arrays, for a model that takes several: --input is a folder with one NAME.npy for each of
// options.parts, which must not be empty. Row i of each of them is item i. Elements are those of the part; float16 is
// also accepted for float32. Errors: ConfigError: a missing file (NoInput), other elements or another shape than the
// part's, files of unequal numbers of rows (BadInput).
std::unique_ptr<BatchSource> make_npy_folder(const SourceOptions& options);

// The .npy files directly in a folder, by name, without hidden ones. Empty if it is not a folder. Blocks: on the disk.
std::vector<std::string> arrays_in(const std::string& folder);

// True if the input is a folder with such files and without pictures.
bool has_arrays_alone(const std::string& input);

// Each file is an item with the file's name. The first one sets the type and shape of all. Errors: ConfigError: no
// array (NoInput); NpyRowLayout's, for the first. load(): UnreadableItem for others that differ.
std::unique_ptr<BatchSource> make_npy_cases(const SourceOptions& options);

}  // namespace offramp
