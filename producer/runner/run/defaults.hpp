#pragma once

#include <string>

#include "common/settings/run_config.hpp"
#include "producer/runner/models/model_metadata.hpp"
#include "producer/runner/run/egress_traits.hpp"

namespace offramp {

// What the defaults depend on.
struct MachineSize {
    bool has_gpu = false;
    unsigned cores = 1;
};

// Replaces every "auto" and 0 that means it by a value that suits the machine, small ones on a CPU, or that the
// metadata of the model's file state. Without consumers their number stays 0. What the user set stays. The image size
// stays 0 where the metadata has one, whose sides may differ; where the middle is cut out of pictures, it is that one.
RunConfig resolve_defaults(RunConfig config, const MachineSize& machine, const ModelMetadata& metadata = {},
                           const EgressTraits& traits = {});

// What to say of a size of pictures that nobody gave, neither `given` nor a model's file; empty: nothing.
std::string warning_about_size(const RunConfig& given, const RunConfig& resolved);

// Errors: ConfigError (Usage) when --tile does not go with the source, or with the size that a model's file takes.
// `config`: resolved.
void require_tiles_fit(const RunConfig& config, const ModelMetadata& metadata);
// Errors: ConfigError (Usage) when --chunk-tokens does not go with the source, or with the tokens that a model's file
// takes. `config`: resolved.
void require_chunks_fit(const RunConfig& config, const ModelMetadata& metadata);

}  // namespace offramp
