#pragma once

#include <span>
#include <vector>

#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/progress_log.hpp"
#include "producer/broker/ready_queue.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The egress's side: filled slabs in, free ones out.
//
// Owns: whether the last grant was short. Borrows: what its constructor names. Thread: the broker's. Blocks: never.
// Errors: none.
class Intake {
  public:
    Intake(SlabLedger& ledger, SlabExchange& exchange, const SlabMemory& memory, ProgressLog* progress,
           SlabRecords& slab_records, ReadyQueue& ready, BrokerReport& totals, RunEnd& run_end)
        : ledger_(ledger),
          exchange_(exchange),
          memory_(memory),
          progress_(progress),
          slab_records_(slab_records),
          ready_(ready),
          totals_(totals),
          run_end_(run_end) {}

    // Takes everything from the egress.
    void take_published();
    // Takes filled slabs only: the rest waits for the broker's own step.
    void take_slabs() { publish(exchange_.take_published()); }
    // True if the egress got one.
    bool grant_slabs();
    // Reports to the egress that no slab is free, if the last grant was short. Not while a release waits: it frees one.
    void report_shortage();

  private:
    void publish(std::span<const PublishedSlab> slabs);

    SlabLedger& ledger_;
    SlabExchange& exchange_;
    const SlabMemory& memory_;
    ProgressLog* const progress_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
    RunEnd& run_end_;
    std::vector<SlabExchange::Grant> grants_;  // kept for its memory
    bool is_short_ = false;
};

}  // namespace offramp
