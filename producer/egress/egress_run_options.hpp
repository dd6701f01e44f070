#pragma once

#include <cstdint>
#include <string>

#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/device/host_memory.hpp"
#include "producer/egress/egress_stream.hpp"
#include "producer/egress/slab_plan.hpp"

namespace offramp {

// Policy for a batch when no slab is free.
enum class WhenFull { Wait, Drop, Spill };

inline constexpr std::uint32_t kConsumerTableSize = 64;

// The settings of a run.
struct EgressRunOptions {
    // --- slabs ---
    SlabLayout layout;
    SpanPlan spans;
    RunSlabs slabs = RunSlabs::PageLockedPool;
    Pinning::Options pinning{};
    // The run fills in the header's nonce and epoch, slab_count, when_none and on_dropped. The header's texts outlive
    // the run.
    EgressStream::Options stream{};
    std::uint64_t items = 0;  // of the source, for a recovered run
    WhenFull when_full = WhenFull::Wait;
    std::string spill_dir;  // empty: in the run's directory
    // --- consumers ---
    std::uint32_t max_consumers = kConsumerTableSize;
    // The run fills in run_nonce, progress, on_completed, on_dead_letter, dead_letters and spill.
    BrokerOptions broker{};
};

}  // namespace offramp
