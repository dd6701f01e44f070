#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/peers.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Finds dead and stalled consumers and takes back their slabs. A pidfd reports a death. A consumer without progress for
// a visibility timeout is stalled: others also get its slabs, and it holds them until it is dead or done.
//
// Owns: the time of the last check, and the consumers seen dead. Borrows: what its constructor names. Thread: the
// broker's. Blocks: never. Errors: none.
class LivenessMonitor {
  public:
    // The interval between checks of the consumers' heartbeat records.
    static constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(100);

    LivenessMonitor(SlabLedger& ledger, const SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
                    const SlabMemory& memory, const BrokerOptions& options, PeerTable& peers, SlabRecords& slab_records,
                    ReadyQueue& ready, BrokerReport& totals, SlabReturns& returns, RunEnd& run_end)
        : ledger_(ledger),
          exchange_(exchange),
          watch_(watch),
          clock_(clock),
          memory_(memory),
          options_(options),
          peers_(peers),
          slab_records_(slab_records),
          ready_(ready),
          totals_(totals),
          returns_(returns),
          run_end_(run_end) {}

    // True if a consumer is dead. Its last messages may have come in since: take them before reap_dead_peers().
    bool poll_deaths();
    void reap_dead_peers();
    // Nothing until the next check is due; then its time, with the heartbeat records up to date.
    std::optional<TimePoint> begin_look();
    void check_visibility_timeouts(TimePoint now);

  private:
    void reap(Peer& peer);
    void leave_out_pause(TimePoint now);
    void on_stalled(Peer& peer);
    void report_stalled(Peer& peer, std::chrono::nanoseconds silent_for) const;

    SlabLedger& ledger_;
    const SlabExchange& exchange_;
    PeerWatch& watch_;
    const Clock& clock_;
    const SlabMemory& memory_;
    const BrokerOptions& options_;
    PeerTable& peers_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
    SlabReturns& returns_;
    RunEnd& run_end_;
    std::vector<pollfd> pidfds_;
    std::vector<std::string> dead_;  // by routing id, until they are reaped
    TimePoint next_look_{};
    TimePoint last_look_{};
};

}  // namespace offramp
