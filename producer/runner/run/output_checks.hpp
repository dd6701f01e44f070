#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Checks that each processor of the run finds an output that it can read; otherwise consumers would fail on the first
// slab. Pure. `upsample_factor`: the enlargement of the outputs. Errors: ConfigError (Usage) with the reason for each
// output.
void require_readable_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                              std::uint32_t upsample_factor);

// Warnings about a run's outputs, in full sentences. They name outputs that no processor writes, and outputs read as
// masks that probably are not: their proportions differ from the model's pictures (`input`: [N, 3, H, W], else without
// dimensions), or they are queries and prototypes of masks. Pure.
std::vector<std::string> warnings_about_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                                std::uint32_t upsample_factor, const TensorSpec& input);

// Refuses results inside the input folder, where the next run would read them, and results with the name of an input
// file. Checks names only: results of an item are KEY.SOMETHING in the output folder, or in each processor's folder if
// there are several. Cheap if the output folder contains no item. `config` is resolved. Errors: ConfigError naming
// both.
void require_results_apart(const RunConfig& config, const BatchSource& source);

}  // namespace offramp
