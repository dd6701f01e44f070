#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/peers.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The egress waits, and no slab is free.
inline bool egress_is_short(const SlabExchange& exchange, const SlabLedger& ledger) {
    return exchange.waiting() && ledger.count(SlabState::Free) == 0;
}

// Why no slab is free: each holder and its time. Logged once the egress has waited long, and rarely after that.
//
// Owns: the start of the egress's wait, and the time of the next log line. Borrows: what its constructor names.
// Thread: the broker's. Blocks: never. Errors: none.
class ShortageReport {
  public:
    ShortageReport(const SlabLedger& ledger, const SlabExchange& exchange, const Clock& clock,
                   const BrokerOptions& options, const PeerTable& peers, const SlabRecords& slab_records)
        : ledger_(ledger),
          exchange_(exchange),
          clock_(clock),
          options_(options),
          peers_(peers),
          slab_records_(slab_records) {}

    // Adds slab states, consumers and their slabs, and why no slab is free. `short_together`: none is free in all
    // groups, though each has a free one.
    void describe(BrokerReport& report, bool short_together) const;
    // Call it regularly.
    void watch(TimePoint now);

  private:
    void describe_holders(BrokerReport& report) const;
    void describe_shortage(BrokerReport& report, bool short_together) const;

    const SlabLedger& ledger_;
    const SlabExchange& exchange_;
    const Clock& clock_;
    const BrokerOptions& options_;
    const PeerTable& peers_;
    const SlabRecords& slab_records_;
    std::optional<TimePoint> short_since_;
    TimePoint next_message_{};
    std::chrono::nanoseconds message_interval_{};
};

}  // namespace offramp
