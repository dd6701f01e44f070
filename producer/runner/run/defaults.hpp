#pragma once

#include <string>

#include "common/app/settings/run_config.hpp"
#include "producer/runner/models/model_metadata.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// The machine's properties that the defaults depend on.
struct MachineSize {
    bool has_gpu = false;
    unsigned cores = 1;
};

// Replaces every "auto", and every 0 that means it, by a value that suits the machine (small on a CPU), or by the one
// in the metadata of the model's file. Without consumers their number stays 0. Values set by the user stay. The image
// size stays 0 if the metadata has one, whose sides may differ; if the middle is cut out of pictures, it is that one.
RunConfig resolve_defaults(RunConfig config, const MachineSize& machine, const ModelMetadata& metadata = {},
                           const EgressTraits& traits = {});

// A warning about a picture size that neither `given` nor a model's file states; empty: none.
std::string warning_about_size(const RunConfig& given, const RunConfig& resolved);

// Errors: ConfigError (Usage) when --tile does not go with the source, or with the size that a model's file takes.
// `config`: resolved.
void require_tiles_fit(const RunConfig& config, const ModelMetadata& metadata);
// Errors: ConfigError (Usage) when --chunk-tokens does not go with the source, or with the tokens that a model's file
// takes. `config`: resolved.
void require_chunks_fit(const RunConfig& config, const ModelMetadata& metadata);

// The metadata of a model's file before it is loaded: those beside it. If they leave the input open, the shape comes
// from the rows of a .npy file that is the input, or of the arrays in an input folder. The defaults for a built-in
// model. `config`: as given, or resolved. Blocks: on the disk. Errors: ConfigError of the metadata, or of the array
// (NoInput, BadInput).
ModelMetadata settled_metadata(const RunConfig& config);

}  // namespace offramp
