#pragma once

#include <memory>
#include <string_view>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A source of the pictures of --input, read as source `name` (common/app/images/open_pictures.hpp), decoded to the
// model's size. Errors: ConfigError (Usage) when the model takes no pictures; those of open_pictures().
std::unique_ptr<BatchSource> make_picture_source(std::string_view name, const SourceOptions& options);

}  // namespace offramp
