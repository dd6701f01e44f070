#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "producer/broker/delivery_record.hpp"
#include "producer/broker/peer.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// A slab's current contents, and its deliveries so far.
struct SlabRecord {
    PublishedSlab published;
    std::uint32_t deliveries = 0;
    std::uint32_t returns = 0;
    std::uint32_t failures = 0;  // reported by consumers that are alive
    bool rejected = false;       // a consumer reported that retries are useless
    std::vector<std::uint64_t> killed_pids;
    std::vector<DeliveryRecord> failed;  // deliveries that did not complete it
    // the current delivery
    TimePoint leased_at{};
    std::uint32_t attempt = 0;          // 0: not delivered by this producer
    std::chrono::nanoseconds waited{};  // time before the delivery
};

// The records of all slabs.
//
// Owns: one record per slab. Borrows: the clock. Thread: the broker's. Blocks: never. Errors: none; a slab's number is
// one of the pool's.
class SlabRecords {
  public:
    SlabRecords(std::uint32_t slabs, const Clock& clock) : clock_(clock), records_(slabs) {}

    SlabRecord& operator[](std::uint32_t slab) { return records_[slab]; }
    const SlabRecord& operator[](std::uint32_t slab) const { return records_[slab]; }
    std::vector<SlabRecord>::iterator begin() { return records_.begin(); }
    std::vector<SlabRecord>::iterator end() { return records_.end(); }

    // When this delivery began; nothing if a previous producer made it.
    std::optional<TimePoint> delivered_at(std::uint32_t slab, std::uint32_t attempt) const;
    // A failed delivery may end twice: its visibility timeout runs out, and later its holder dies. The later end
    // replaces the earlier.
    void note_failed(std::uint32_t slab, std::uint32_t attempt, const Peer& peer, const char* end, bool counted,
                     std::string why = {});

  private:
    const Clock& clock_;
    std::vector<SlabRecord> records_;
};

}  // namespace offramp
