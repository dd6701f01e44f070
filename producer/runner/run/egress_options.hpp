#pragma once

#include "common/app/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/runner/run/egress_plan.hpp"
#include "producer/runner/run/egress_traits.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// Lays out the slabs of a run's outputs, and logs their sizes for the user. Errors: see EgressPlan::make.
EgressPlan lay_out_slabs(const RunConfig& config, const EgressTraits& traits, const OutputTransformer& transformer,
                         const BatchSource& source, const Device& device);

// The egress for these settings. `config` outlives what is made of it. Errors: ConfigError for a consumer's user that
// this machine does not know.
EgressRunOptions egress_options(const RunConfig& config, const EgressTraits& traits, const EgressPlan& plan,
                                const OutputTransformer& transformer);

}  // namespace offramp
