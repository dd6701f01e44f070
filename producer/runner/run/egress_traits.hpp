#pragma once

#include <string>

#include "producer/egress/run_slabs.hpp"

namespace offramp {

// What a run has to know of the way its outputs leave the device.
struct EgressTraits {
    using Slabs = RunSlabs;

    std::string name = "streams";  // in logs, traces and summaries
    Slabs slabs = Slabs::PageLockedPool;
    bool outputs_dropped = false;     // on the device: nothing is read, written or kept of them
    bool batches_share_slabs = true;  // several small ones, in one slab
    std::string warning;              // said in the log of each run; empty: nothing

    bool has_consumers() const { return offramp::has_consumers(slabs); }
    bool has_pool() const { return offramp::has_pool(slabs); }
    // Whether another producer can go on where one died: the slabs are there before and after it.
    bool survives_producer() const { return has_pool(); }
};

}  // namespace offramp
