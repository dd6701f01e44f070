#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/device/pinning.hpp"
#include "producer/egress/run_slabs.hpp"

namespace offramp {

// What becomes of a batch for which no slab is free.
enum class WhenFull { Wait, Drop, Spill };

// What a run is.
struct EgressRunOptions {
    // --- slabs ---
    SlabLayout layout;
    SpanPlan spans;
    RunSlabs slabs = RunSlabs::PageLockedPool;
    Pinning::Options pinning{};
    std::uint32_t batch = 1;                 // most samples of a batch
    std::size_t queue_depth = 1;             // batches submitted and not yet being copied
    std::chrono::nanoseconds max_delay{};    // of a small batch that waits for others to share its slab
    SlabWriter::HeaderFields header_fields;  // nonce and epoch are filled in; its texts outlive the run
    WhenFull when_full = WhenFull::Wait;
    std::string spill_dir;  // empty: in the run's directory
    // --- consumers ---
    std::uint32_t max_consumers = 64;
    std::vector<uid_t> allowed_uids;  // whose consumers are let in
    std::uint64_t work = 0;           // what they must say that they will do with slabs
    std::chrono::nanoseconds visibility_timeout = std::chrono::seconds(30);
    std::uint32_t max_failures = 3;    // deaths that a slab may cause before it is a dead letter
    std::uint64_t warmup_batches = 0;  // left out of the steady-state stats
    bool kill_stalled = false;
};

}  // namespace offramp
