#pragma once

#include <cstdint>

#include "producer/broker/broker_report.hpp"
#include "producer/broker/peer.hpp"
#include "producer/broker/ready_queue.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// Takes back the slabs of a consumer that has left or will not process them.
//
// Borrows: ledger, slab records, ready queue, totals. Thread: the broker's. Blocks: never. Errors: none.
class SlabReturns {
  public:
    SlabReturns(SlabLedger& ledger, SlabRecords& slab_records, ReadyQueue& ready, BrokerReport& totals)
        : ledger_(ledger), slab_records_(slab_records), ready_(ready), totals_(totals) {}

    // `work`: a dead consumer's work word. `how`: how the consumer ended, for the record of each delivery.
    void take_back(Peer& peer, std::uint64_t work, const char* how);

  private:
    SlabLedger& ledger_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
};

}  // namespace offramp
