#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/settings/run_config.hpp"
#include "producer/broker/delivery.hpp"
#include "producer/device/device.hpp"
#include "producer/egress/egress_path.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/runner/run/egress_traits.hpp"

namespace offramp {

// What an egress path is made of. Borrows all of it.
struct EgressParts {
    const RunConfig& config;
    Stream& compute;
    PathParts path;
};

// What the totals of a run without consumers are made of.
struct LocalDeliveryParts {
    std::uint64_t warmup_batches = 0;                        // left out of the steady stats
    std::function<void(const PublishedSlab&)> begin;         // before a slab is processed; may be empty
    std::function<void(const PublishedSlab&)> on_completed;  // when it is done; may be empty
};

// How a run's outputs leave the device. The program gives one to its run, which knows no more of it than this.
// Thread: the model's. Blocks: never.
class EgressStrategy {
  public:
    virtual ~EgressStrategy() = default;
    virtual const EgressTraits& traits() const = 0;
    // Called once, before make_path(), where there are no consumers; the egress path may borrow it. Elsewhere there is
    // none: null.
    virtual std::unique_ptr<Delivery> make_local_delivery(LocalDeliveryParts) { return nullptr; }
    // Called once. Errors: ConfigError from what processes outputs in the producer.
    virtual std::unique_ptr<EgressPath> make_path(EgressParts parts) = 0;
};

}  // namespace offramp
