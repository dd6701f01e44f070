#pragma once

#include <memory>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The rows of several arrays, for a model that takes several: --input is a folder with one NAME.npy for each of
// options.parts, which must not be empty. Row i of each of them is item i. Elements are those of the part; float16 is
// also accepted for float32. Errors: ConfigError: a missing file (NoInput), other elements or another shape than the
// part's, files of unequal numbers of rows (BadInput).
std::unique_ptr<BatchSource> make_npy_folder(const SourceOptions& options);

}  // namespace offramp
