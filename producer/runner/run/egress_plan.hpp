#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/device/device.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/run/egress_strategy.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// How a run's outputs are cut into slabs (producer/egress/slab_plan.hpp), and how far its stages may run ahead of one
// another. Settings left open follow from the size of a batch.
struct EgressPlan {
    SlabLayout layout;
    SpanPlan spans;
    std::size_t queue_depth = 1;  // batches between the model and the copies
    Inference::Pace pace;

    // `outputs`: of a full batch, as they are copied. `on_gpu`: see SlabPlan::make. `most_varying_bytes`: of a sample
    // (OutputTransformer). Errors: ConfigError, see SlabLayout::make; where samples differ in shape, for an egress or a
    // setting that does not support it; for --when-full drop or drop-oldest with fewer slabs than a batch fills.
    static EgressPlan make(const RunConfig& config, const EgressTraits& traits, const std::vector<TensorSpec>& outputs,
                           std::size_t max_key_bytes, bool on_gpu, std::size_t most_varying_bytes = 0);
};

// Lays out the slabs of a run's outputs, and logs their sizes for the user. Errors: see EgressPlan::make.
EgressPlan lay_out_slabs(const RunConfig& config, const EgressTraits& traits, const OutputTransformer& transformer,
                         const BatchSource& source, const Device& device);

// The egress for these settings. `config` must outlive the result's users. Errors: ConfigError for a consumer's user
// that this machine does not know.
EgressRunOptions egress_options(const RunConfig& config, const EgressTraits& traits, const EgressPlan& plan,
                                const OutputTransformer& transformer);

// The kernel's memory figures, in bytes.
struct MachineMemory {
    std::uint64_t total = 0;      // including swap
    std::uint64_t available = 0;  // including free swap
    std::uint64_t own = 0;        // resident in this process, without shared pages

    // Returns 0 for figures that the kernel does not report. The arguments are for tests.
    static MachineMemory read(const std::string& machine = "/proc/meminfo",
                              const std::string& process = "/proc/self/status");
};

// Checks that the machine has memory for a run's slabs and its model. Call it before the slabs are made and after the
// model's first batch, which stays in this process. The makers of slabs check the limits of control groups and
// /dev/shm. Warns if other programs would have to release memory. Errors: Error (System) with the sizes, if the machine
// is too small.
void require_memory(const MachineMemory& memory, std::uint32_t slabs, std::uint64_t slab_bytes, std::uint32_t batch);

}  // namespace offramp
