#pragma once

#include <memory>
#include <string_view>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A source of the pictures that --input names as source `name` reads it (common/images/open_pictures.hpp), decoded to
// the size that the model takes. Errors: ConfigError (Usage) when the model takes no pictures; those of
// open_pictures().
std::unique_ptr<BatchSource> make_picture_source(std::string_view name, const SourceOptions& options);

}  // namespace offramp
