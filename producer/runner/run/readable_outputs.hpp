#pragma once

#include <cstdint>
#include <span>

#include "common/settings/run_config.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {

// That each processor of the run finds an output that it can read; consumers would learn it from the first slab. Pure.
// `upsample_factor`: by which the outputs are to be enlarged. Errors: ConfigError (Usage) with what stands in the way
// of each output.
void require_readable_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                              std::uint32_t upsample_factor);

}  // namespace offramp
