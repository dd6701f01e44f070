#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/broker_state.hpp"

namespace offramp {

// Why no slab is free: who holds what, and for how long. The log says so once the egress has waited long, and seldom
// after that.
//
// Owns: since when the egress waits, and when the log says so next. Borrows: the state, which it only reads; of it:
// ledger, exchange, clock, peers, slab_records. Thread: the broker's. Blocks: never. Errors: none.
class ShortageReport {
  public:
    explicit ShortageReport(const BrokerState& state) : state_(state) {}

    // Adds the slabs' states, the consumers and what each holds, and why no slab is free.
    void describe(BrokerReport& report) const;
    // To be called now and then.
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
