#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/app/settings/run_config.hpp"
#include "producer/broker/delivery.hpp"
#include "producer/device/device.hpp"
#include "producer/egress/egress_path.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/runner/run/egress_traits.hpp"

namespace offramp {

// The parts of an egress path. Borrows all of them.
struct EgressParts {
    const RunConfig& config;
    Stream& compute;
    PathParts path;
};

// The parts of a run's totals without consumers.
struct LocalDeliveryParts {
    std::uint64_t warmup_batches = 0;                        // excluded from the steady-state stats
    std::function<void(const PublishedSlab&)> begin;         // before a slab is processed; may be empty
    std::function<void(const PublishedSlab&)> on_completed;  // when it is done; may be empty
};

// How a run's outputs leave the device. The program passes one to its run, which knows only this interface.
// Thread: the model's. Blocks: never.
class EgressStrategy {
  public:
    virtual ~EgressStrategy() = default;
    virtual const EgressTraits& traits() const = 0;
    // Called once, before make_path(), in a run without consumers; the egress path may borrow it. Otherwise null.
    virtual std::unique_ptr<Delivery> make_local_delivery(LocalDeliveryParts) { return nullptr; }
    // Called once. Errors: ConfigError from a processor that runs in the producer.
    virtual std::unique_ptr<EgressPath> make_path(EgressParts parts) = 0;
};

}  // namespace offramp
