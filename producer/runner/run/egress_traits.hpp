#pragma once

#include <string>

#include "producer/egress/run_slabs.hpp"

namespace offramp {

// The properties of an egress that its run needs to know.
struct EgressTraits {
    using Slabs = RunSlabs;

    std::string name = "streams";  // in logs, traces and summaries
    Slabs slabs = Slabs::PageLockedPool;
    bool outputs_dropped = false;     // on the device: outputs are neither read, written nor kept
    bool batches_share_slabs = true;  // several small batches in one slab
    std::string warning;              // logged in each run; empty: none

    bool has_consumers() const { return offramp::has_consumers(slabs); }
    bool has_pool() const { return offramp::has_pool(slabs); }
    // Whether another producer can continue after a death: the slabs outlive their producer.
    bool survives_producer() const { return has_pool(); }
};

}  // namespace offramp
