#pragma once

#include <string>

namespace offramp {

// What a run has to know of the way its outputs leave the device.
struct EgressTraits {
    enum class Slabs {
        PageLockedPool,  // shared memory made ahead, page-locked
        Pool,            // the same, not page-locked
        // a shared-memory object of its own for each slab, made anew by the egress path whenever the slab is filled
        MadePerFilling,
        None,  // no other process sees an output, so there are no consumers
    };

    Slabs slabs = Slabs::PageLockedPool;
    bool outputs_dropped = false;     // on the device: nothing is read, written or kept of them
    bool batches_share_slabs = true;  // several small ones, in one slab
    std::string caution;              // said in the log of each run; empty: nothing

    bool has_consumers() const { return slabs != Slabs::None; }
    bool has_pool() const { return slabs == Slabs::PageLockedPool || slabs == Slabs::Pool; }
    // Whether another producer can go on where one died: the slabs are there before and after it.
    bool survives_producer() const { return has_pool(); }
};

}  // namespace offramp
