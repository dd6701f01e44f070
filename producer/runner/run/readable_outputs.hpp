#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/settings/run_config.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {

// That each processor of the run finds an output that it can read; consumers would learn it from the first slab. Pure.
// `upsample_factor`: by which the outputs are to be enlarged. Errors: ConfigError (Usage) with what stands in the way
// of each output.
void require_readable_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                              std::uint32_t upsample_factor);

// What is worth a word of the outputs that a run reads, in whole sentences: those that no processor writes, and those
// that are read as masks and are probably none: not in the proportions of the pictures that the model takes (`input`:
// [N, 3, H, W], else of no dimensions), or queries and prototypes that masks are made of later. Pure.
std::vector<std::string> warnings_about_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                                std::uint32_t upsample_factor, const TensorSpec& input);

}  // namespace offramp
