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

// What each slab's current filling is, and how its deliveries went.
//
// Owns: that, a record a slab. Borrows: the clock. Thread: the broker's. Blocks: never. Errors: none; a slab's number
// is one of the pool's.
class SlabFillings {
  public:
    struct Filling {
        PublishedSlab published;
        std::uint32_t deliveries = 0;
        std::uint32_t returns = 0;
        std::uint32_t failures = 0;  // of the charges: their consumers live
        bool rejected = false;       // a consumer said that none will do better
        std::vector<std::uint64_t> killed_pids;
        std::vector<DeliveryRecord> failed;  // deliveries that did not complete it
        // the current delivery
        TimePoint leased_at{};
        std::uint32_t attempt = 0;          // 0: none of this producer's
        std::chrono::nanoseconds waited{};  // until then, for a consumer
    };

    SlabFillings(std::uint32_t slabs, const Clock& clock) : clock_(clock), fillings_(slabs) {}

    Filling& operator[](std::uint32_t slab) { return fillings_[slab]; }
    const Filling& operator[](std::uint32_t slab) const { return fillings_[slab]; }
    std::vector<Filling>::iterator begin() { return fillings_.begin(); }
    std::vector<Filling>::iterator end() { return fillings_.end(); }

    // When this delivery began; nothing where a previous producer made it.
    std::optional<TimePoint> delivered_at(std::uint32_t slab, std::uint32_t attempt) const;
    // A delivery that completes nothing may end twice: its visibility timeout runs out, and later its holder dies. The
    // later one stands.
    void note_failed(std::uint32_t slab, std::uint32_t attempt, const Peer& peer, const char* end, bool charged,
                     std::string why = {});

  private:
    const Clock& clock_;
    std::vector<Filling> fillings_;
};

}  // namespace offramp
