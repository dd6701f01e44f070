#pragma once

#include "common/app/settings/run_config.hpp"
#include "producer/runner/models/model_metadata.hpp"

namespace offramp {

// The metadata of a model's file before it is loaded: those beside it. If they leave the input open, the shape comes
// from the rows of a .npy file that is the input, or of the arrays in an input folder. The defaults for a built-in
// model. `config`: as given, or resolved. Blocks: on the disk. Errors: ConfigError of the metadata, or of the array
// (NoInput, BadInput).
ModelMetadata settled_metadata(const RunConfig& config);

}  // namespace offramp
