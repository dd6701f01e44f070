#pragma once

namespace offramp {

// What memory a run's slabs are.
enum class RunSlabs {
    PageLockedPool,  // shared memory made ahead, page-locked
    Pool,            // the same, not page-locked
    MadePerFilling,  // a shared-memory object of its own for each slab, made anew whenever the slab is filled
    None,            // no other process sees an output, so there are no consumers
};

inline bool has_consumers(RunSlabs slabs) { return slabs != RunSlabs::None; }
inline bool has_pool(RunSlabs slabs) { return slabs == RunSlabs::PageLockedPool || slabs == RunSlabs::Pool; }

}  // namespace offramp
