#pragma once

namespace offramp {

// The kind of memory that a run's slabs use.
enum class RunSlabs {
    PageLockedPool,  // shared memory made ahead, page-locked
    Pool,            // the same, not page-locked
    MadePerFilling,  // a shared-memory object per slab, created anew for each filling
    None,            // outputs stay in the process, so there are no consumers
};

inline bool has_consumers(RunSlabs slabs) { return slabs != RunSlabs::None; }
inline bool has_pool(RunSlabs slabs) { return slabs == RunSlabs::PageLockedPool || slabs == RunSlabs::Pool; }

}  // namespace offramp
