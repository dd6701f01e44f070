#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/run/egress_traits.hpp"

namespace offramp {

// How a run's outputs are cut into slabs (producer/egress/slab_plan.hpp), and how far its stages may run ahead of one
// another. Settings left open follow from the size of a batch.
struct EgressPlan {
    SlabLayout layout;
    SpanPlan spans;
    std::size_t queue_depth = 1;  // batches between the model and the copies
    Inference::Pace pace;

    // `outputs`: of a full batch, as they are copied. `on_gpu`: see SlabPlan::make. Errors: ConfigError, see
    // SlabLayout::make.
    static EgressPlan make(const RunConfig& config, const EgressTraits& traits, const std::vector<TensorSpec>& outputs,
                           std::size_t max_key_bytes, bool on_gpu);
};

}  // namespace offramp
