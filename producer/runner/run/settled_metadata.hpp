#pragma once

#include "common/settings/run_config.hpp"
#include "producer/runner/models/model_metadata.hpp"

namespace offramp {

// What a run knows of a model's file before it is loaded: the metadata beside it, and where these leave open what goes
// in, the shape of the rows of a .npy file that is the input, or of the arrays in a folder that is. The defaults for a
// built-in model. `config`: as given, or resolved. Blocks: on the disk. Errors: ConfigError of the metadata, or of the
// array (NoInput, BadInput).
ModelMetadata settled_metadata(const RunConfig& config);

}  // namespace offramp
