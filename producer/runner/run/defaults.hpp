#pragma once

#include <string>

#include "common/app/settings/run_config.hpp"
#include "producer/runner/models/model_metadata.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// The machine's properties that the defaults depend on.
struct MachineSize {
    bool has_gpu = false;
    bool gpu_decodes = false;  // JPEG files
    unsigned cores = 1;
};

// Replaces every "auto", and every 0 with the same meaning, with a value that suits the machine (small on a CPU), or
// with the one in the metadata of the model's file. Values set by the user stay. Without consumers their number stays
// 0. If the metadata sets the picture size, the image size becomes that size when both sides are equal, and otherwise
// stays 0.
RunConfig resolve_defaults(RunConfig config, const MachineSize& machine, const ModelMetadata& metadata = {},
                           const EgressTraits& traits = {});

// A warning about a picture size that neither `given` nor a model's file states; empty: none.
std::string warning_about_size(const RunConfig& given, const RunConfig& resolved);

// Errors: ConfigError (Usage) when --tile does not go with the source, or with the size that a model's file takes.
// `config`: resolved.
void require_tiles_fit(const RunConfig& config, const ModelMetadata& metadata);
// The same when --decode gpu does not go with the source.
void require_decoder_fits(const RunConfig& config);
// Errors: ConfigError (Usage) when --chunk-tokens does not go with the source, or with the tokens that a model's file
// takes. `config`: resolved.
void require_chunks_fit(const RunConfig& config, const ModelMetadata& metadata);
// Errors: ConfigError (Usage) when --output-tensor goes with no model's file. `config`: resolved.
void require_outputs_of_file(const RunConfig& config);

// The metadata of a model's file before it is loaded, from the file beside it. If it leaves the input open, the shape
// comes from the rows of the input's .npy file, or of the arrays in an input folder; own_shapes() adds it if they keep
// their shapes. For a built-in model, the defaults. `config`: as given, or resolved. Blocks: on the disk. Errors:
// ConfigError of the metadata, or of the array (NoInput, BadInput).
ModelMetadata settled_metadata(const RunConfig& config);

// True if a run needs more of its list of pictures than the names, or the names of all: a job then has no index, and a
// shard uses none. Errors: those of settled_metadata().
bool needs_whole_list(const RunConfig& config);

}  // namespace offramp
