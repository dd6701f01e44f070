#pragma once

#include <cstdint>
#include <memory>

#include "producer/device/device.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// The two rates that delivery is compared with, measured in the run, with its model, buffers and slabs.

// Batches per second of model and transform alone: the same input each time, outputs dropped on the device, after
// `warmup` batches. Returns with the device idle. Thread: the inference thread.
double measure_compute_alone(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                             const void* input, std::uint64_t warmup, std::uint64_t batches);

// Bytes per second of bare copies, back to back, from one batch's outputs into the run's slabs, by the device's clock.
// Borrows up to four slabs of the pool meanwhile. 0 when the run was stopped.
double measure_copy_ceiling(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                            const void* input, EgressRun& egress, std::uint64_t batches);

}  // namespace offramp
