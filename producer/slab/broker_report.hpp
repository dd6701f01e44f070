#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/protocol/ledger_layout.hpp"
#include "producer/slab/slab_exchange.hpp"
#include "producer/slab/slab_ledger.hpp"

namespace offramp {

// Adds up slabs in the units that users count in.
struct Amount {
    std::uint64_t slabs = 0;
    std::uint64_t batches = 0;   // counted with the slab that holds a batch's last rows
    std::uint64_t samples = 0;   // without holes
    std::uint64_t bytes = 0;     // of payload

    void add(const PublishedSlab& slab) {
        ++slabs;
        batches += slab.batches_ended;
        samples += slab.samples;
        bytes += slab.bytes;
    }
};

// What is known of one consumer session, living or past.
struct ConsumerReport {
    std::uint64_t pid = 0;
    std::uint64_t session = 0;
    std::uint32_t slot = 0;
    std::uint32_t holding = 0;
    Amount completed;
    double busy_seconds = 0;     // its own word
    std::string end;             // empty while it lives; "goodbye" or "died"
};

struct QuarantinedSlab {
    std::uint64_t first_batch = 0;
    std::uint32_t samples = 0;
    std::uint64_t deaths = 0;
    std::vector<std::uint64_t> pids;   // of the consumers that it took down
};

// The broker's books. A copy of one moment: the counters agree with one another.
struct BrokerReport {
    Amount published, completed, quarantined, in_flight;
    Amount redelivered;                    // by delivery, beyond the first of a filling
    std::uint64_t deliveries = 0;
    std::array<std::uint64_t, kReleaseOutcomes> releases{};
    std::uint64_t repeated_releases = 0;   // seen before: acknowledged again, nothing else
    std::map<std::string, std::uint64_t> refused;   // messages and peers, by reason
    std::array<std::uint32_t, kSlabStates> slabs{};
    std::vector<ConsumerReport> consumers;
    std::vector<QuarantinedSlab> given_up;
    std::uint64_t first_release_ns = 0;    // CLOCK_MONOTONIC; 0: none yet
    std::uint64_t last_release_ns = 0;
    std::uint64_t steady_since_ns = 0;     // when the warm-up batches had been released
    Amount before_steady;                  // completed until then
    std::string shortage;                  // why no slab is free; empty when there is one
    bool ended = false;                    // nothing is in flight, and every consumer has been told

    // published = completed + in flight + quarantined, in samples.
    bool conserved() const {
        return published.samples == completed.samples + in_flight.samples + quarantined.samples;
    }
};

}  // namespace offramp
