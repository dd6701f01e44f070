#pragma once

#include <cstdint>
#include <memory>

#include "common/wire/slab_layout.hpp"
#include "producer/device/device.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// The two rates that delivery is compared with, measured in the run itself, with the same model, buffers and slabs.

// Batches a second of model and transform alone: the same input each time, outputs dropped on the device, after
// `warmup` batches. Returns with the device idle. Thread: the inference thread.
double measure_compute_alone(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                             const void* input, std::uint64_t warmup, std::uint64_t batches);

// Bytes a second of bare copies, back to back, from one batch's outputs into the run's own slabs, by the device's
// clock. Takes up to four slabs from the exchange for the time and gives them back unpublished. 0 when the exchange was
// stopped.
double measure_copy_ceiling(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                            const void* input, const SlabLayout& layout, SlabExchange& exchange,
                            std::uint32_t slab_count, std::uint64_t batches);

}  // namespace offramp
