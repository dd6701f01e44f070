#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>

#include "common/base/clock.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Makes room while the egress needs a slab and none is free, with the oldest waiting slab. Either Intake has it
// dropped, or it moves to the disk, and is read back when no other slab waits. The options choose; by default nothing
// is done.
//
// Owns: slabs on the disk and on their way. Borrows: what its constructor names. Thread: the broker's. Blocks: never,
// the store's thread writes and reads; a drop, as on_dropped does. Errors: a slab that cannot be written stays in
// memory, with the reason in the totals; one that cannot be read back is lost, and ends the run.
class Spill {
  public:
    // The egress waits this long for a consumer before a slab is spilled. With groups, it is short of slabs this long
    // before the first is spilled; more follow without delay, until it has not been short for as long.
    static constexpr std::chrono::nanoseconds kPatience = std::chrono::milliseconds(50);

    Spill(SlabLedger& ledger, const SlabExchange& exchange, const Clock& clock, const SlabMemory& memory,
          const BrokerOptions& options, SlabRecords& slab_records, ReadyQueue& ready, BrokerReport& totals,
          const RunEnd& run_end)
        : ledger_(ledger),
          exchange_(exchange),
          clock_(clock),
          memory_(memory),
          options_(options),
          store_(options.spill.get()),
          slab_records_(slab_records),
          ready_(ready),
          totals_(totals),
          run_end_(run_end) {}

    // Continues with a previous producer's files, oldest first.
    void adopt(std::span<const SpilledSlab> spilled);
    // Takes the store's latest outcome.
    void take_outcome();
    // Gives the store its next slab, if there is one.
    void set_to_work();
    std::optional<std::uint32_t> oldest_waiting(const std::function<bool(std::uint32_t)>& wanted = {}) const;
    // A waiting slab without holders: lists, counts, then frees it.
    void drop(std::uint32_t slab);
    // The egress was granted a slab; its thread may not have noticed yet.
    void note_egress_served() {
        if (!among_groups()) short_since_.reset();
    }
    // A filling on the disk that another group could not process. Errors: SystemError.
    void mark_lost(std::uint64_t filling);
    const std::deque<SpilledSlab>& on_disk() const { return spilled_; }

    bool empty() const { return spilled_.empty(); }
    // A Ready slab on its way to the disk: it is not handed out meanwhile.
    bool is_being_written(std::uint32_t slab) const { return slab == writing_; }
    // The egress waits, and may soon need set_to_work().
    bool is_wanted() const {
        return store_ && (among_groups() ? options_.others.egress_is_short() : exchange_.waiting());
    }

  private:
    void on_written(const SpillStore::Outcome& outcome);
    void on_read_back(const SpillStore::Outcome& outcome);
    bool among_groups() const { return options_.others.egress_is_short != nullptr; }
    bool wants_to_write();
    void read_next_back();

    SlabLedger& ledger_;
    const SlabExchange& exchange_;
    const Clock& clock_;
    const SlabMemory& memory_;
    const BrokerOptions& options_;
    SpillStore* const store_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
    const RunEnd& run_end_;
    std::deque<SpilledSlab> spilled_;  // on the disk, oldest first
    std::optional<std::uint32_t> writing_;
    std::optional<TimePoint> short_since_;
    TimePoint short_at_{};    // at the latest
    TimePoint next_write_{};  // after a failure, not before this time
};

}  // namespace offramp
