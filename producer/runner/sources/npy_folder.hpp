#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The rows of several arrays, for a model that takes several. --input is a folder with one NAME.npy for each of
// options.parts, which must not be empty. Item i is row i of every array. Elements have the part's type; float16 is
// also accepted for float32. Errors: ConfigError when a file is missing (NoInput), has another element type or shape
// than its part, or the files have unequal numbers of rows (BadInput).
std::unique_ptr<BatchSource> make_npy_folder(const SourceOptions& options);

// The .npy files directly in a folder, by name, without hidden ones. Empty if it is not a folder. Blocks: on the disk.
std::vector<std::string> arrays_in(const std::string& folder);

// True if the input is a folder with .npy files and without pictures.
bool has_arrays_alone(const std::string& input);

// Adds the shapes of the first `arrays` of shapes.files(), as the model takes them, and their form unless it is set.
// `declared`: the shape of a sample, with kVarying where samples differ. Empty: samples are pictures if `are_pictures`,
// or if most arrays are 8-bit and of three channels; otherwise they have as many dimensions as most arrays. Blocks: on
// the disk.
void add_shapes(const std::string& folder, std::uint64_t arrays, std::span<const std::int64_t> declared,
                bool are_pictures, const StillWanted& still_wanted, ItemShapes& shapes);

// A source in which each file is one item, with the file's name. The first file sets type and shape of all; if
// SourceOptions has shapes, the first file that has one sets the type. Errors: ConfigError when there is no array
// (NoInput); NpyRowLayout's, for the first file. load(): UnreadableItem for files that differ from it.
std::unique_ptr<BatchSource> make_npy_cases(const SourceOptions& options);

}  // namespace offramp
