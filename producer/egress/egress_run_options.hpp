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

// Policy for a batch when no slab is free.
enum class WhenFull { Wait, Drop, Spill };

// The settings of a run.
struct EgressRunOptions {
    // --- slabs ---
    SlabLayout layout;
    SpanPlan spans;
    RunSlabs slabs = RunSlabs::PageLockedPool;
    Pinning::Options pinning{};
    std::uint32_t batch = 1;                 // most samples of a batch
    std::size_t queue_depth = 1;             // batches submitted and not yet being copied
    std::chrono::nanoseconds max_delay{};    // a small batch waits this long for others to share its slab
    SlabWriter::HeaderFields header_fields;  // the run fills in nonce and epoch; the texts outlive the run
    std::uint64_t items = 0;                 // of the source, for a recovered run
    WhenFull when_full = WhenFull::Wait;
    std::string spill_dir;  // empty: in the run's directory
    // --- consumers ---
    std::uint32_t max_consumers = 64;
    std::vector<uid_t> allowed_uids;  // users whose consumers are admitted
    std::uint64_t work = 0;           // hash of the processing that consumers must announce
    std::chrono::nanoseconds visibility_timeout = std::chrono::seconds(30);
    std::uint32_t max_failures = 3;    // failed deliveries before a slab becomes a dead letter
    std::uint64_t warmup_batches = 0;  // excluded from the steady-state stats
    bool kill_stalled = false;
};

}  // namespace offramp
