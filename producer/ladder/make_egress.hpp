#pragma once

#include <functional>
#include <memory>

#include "common/settings/run_config.hpp"
#include "common/shm/run_objects.hpp"
#include "producer/egress/egress_stream.hpp"
#include "producer/ladder/local_delivery.hpp"
#include "producer/ladder/rung.hpp"

namespace offramp {

// What the rungs' parts are made of. Borrows all of it.
struct EgressParts {
    const RunConfig& config;
    const RunNames& names;
    Device& device;
    Stream& compute;
    std::shared_ptr<SlabExchange> exchange;
    const SlabLayout& layout;
    DeviceTimeline& timeline;
    LocalDelivery* delivery = nullptr;         // of the rungs without consumers
    EgressStream::Options options;
    std::function<void()> on_failure;
};

// Puts a rung together. Errors: ConfigError from the processor that the rung `sequential` runs in the producer.
std::unique_ptr<OutputSink> make_egress(const Rung& rung, EgressParts parts);

}  // namespace offramp
