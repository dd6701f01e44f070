#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/broker_state.hpp"

namespace offramp {

// Why no slab is free: each holder and its time. Logged once the egress has waited long, and rarely after that.
//
// Owns: the start of the egress's wait, and the time of the next log line. Borrows: the state, read-only; of it:
// ledger, exchange, clock, peers, slab_records. Thread: the broker's. Blocks: never. Errors: none.
class ShortageReport {
  public:
    explicit ShortageReport(const BrokerState& state) : state_(state) {}

    // Adds slab states, consumers and their slabs, and why no slab is free.
    void describe(BrokerReport& report) const;
    // Call it regularly.
    void watch(TimePoint now);

  private:
    void describe_holders(BrokerReport& report) const;
    void describe_shortage(BrokerReport& report) const;

    const BrokerState& state_;
    std::optional<TimePoint> short_since_;
    TimePoint next_message_{};
    std::chrono::nanoseconds message_interval_{};
};

}  // namespace offramp
