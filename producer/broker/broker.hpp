#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/group_broker.hpp"
#include "producer/broker/peers.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The groups of a run, by their number.
using GroupBrokers = std::vector<std::unique_ptr<GroupBroker>>;

// The egress's side: filled slabs in, free ones out. A slab is free when it is free in every group.
//
// Owns: whether the last grant was short. Borrows: what its constructor names. Thread: the broker's. Blocks: never.
// Errors: none.
class Intake {
  public:
    Intake(const GroupBrokers& groups, SlabExchange& exchange) : groups_(groups), exchange_(exchange) {}

    // Takes everything from the egress. `number`: called for each slab before the groups get it.
    void take_published(const std::function<void(PublishedSlab&)>& number);
    // Takes filled slabs only: the rest waits for the broker's own step.
    void take_slabs(const std::function<void(PublishedSlab&)>& number) { publish(exchange_.take_published(), number); }
    // True if the egress got one.
    bool grant_slabs();
    // Reports to the egress that no slab is free, if the last grant was short. Not while a release waits: it frees one.
    void report_shortage();
    // Drops waiting slabs if the last grant was short: those that only wait in optional groups; and for an egress that
    // waits and asks for it, others. Consumers are served first.
    void drop_for_egress();
    // No slab is free in all groups, though each has a free one.
    bool are_short_together() const;
    // Takes back what the egress will not fill.
    void withdraw();
    // For a group that spills.
    OtherGroups others(std::size_t group);

  private:
    void publish(std::vector<PublishedSlab> slabs, const std::function<void(PublishedSlab&)>& number);
    std::optional<std::uint32_t> acquire();
    bool free_in_others(std::uint32_t slab, const GroupBroker& apart) const;
    bool can_be_freed(std::uint32_t slab) const;
    bool is_any_free() const;
    GroupBroker& fewest_free() const;
    bool drop_oldest(const std::function<bool(const GroupBroker&)>& loses);

    const GroupBrokers& groups_;
    SlabExchange& exchange_;
    std::vector<WriteLoan> grants_;  // kept for its memory
    bool is_short_ = false;
};

// The fate of slabs in a run with several groups: completed when every required group has completed it, lost when one
// of them cannot process it or drops it. The first of these decides whether it is a dead letter or dropped. After a
// death the ledgers show it: a lost slab is marked in each ledger that still has it, and by the name of its file where
// it is on the disk.
//
// Fates are kept by filling, since a slab's memory is filled again while groups have its contents on the disk. After a
// recovery a filling's number is its PublishedSlab::items_through (producer/recovery/predecessor.hpp).
//
// Owns: the fate of each open filling, and the totals. Borrows: the groups. Thread: the broker's. Blocks: never.
// Errors: none.
class WholeSlabs {
  public:
    explicit WholeSlabs(const GroupBrokers& groups) : groups_(groups) {}

    // In each group that has this filling.
    void mark_lost(const PublishedSlab& published);
    // Continues after a recovery, with lost slabs marked.
    void adopt();
    // Numbers it.
    void note_published(PublishedSlab& published);
    // A required group completed it; true if the slab is completed by that.
    bool note_completed(const PublishedSlab& published, std::uint64_t now_ns, std::uint64_t warmup_batches);
    // A required group counted it as a dead letter or as dropped, and has not taken that step yet. True the first time.
    bool note_lost(const PublishedSlab& published, CountedStep step);
    // The run's report. `groups`: each group's, in order.
    BrokerReport report(std::span<const BrokerReport> groups) const;

  private:
    struct Fate {
        std::uint8_t open = 0;  // required groups that have not completed it
        bool lost = false;
    };
    // One required group has completed it, or lost it. Returns its fate after that.
    Fate close(std::uint64_t filling);
    SlabState state_of(std::uint32_t slab) const;

    const GroupBrokers& groups_;
    std::unordered_map<std::uint64_t, Fate> fates_;  // by filling, while required groups have not completed it
    std::uint64_t last_filling_ = 0;
    BrokerReport totals_;
};

// Hands slabs to the consumers of every group. One thread steps all groups, so a death leaves at most one step of one
// group half done.
//
// Owns: the groups' brokers. Borrows: exchange, watch, clock, and what BrokerGroup names. Thread: one at a time, the
// owner of ledgers and ports. Blocks: never (the thread that steps it waits on the ports and wait_fds()). Errors:
// consumers' errors are counted and answered; only a broken system throws.
class Broker {
  public:
    using SlabMemory = offramp::SlabMemory;

    Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
           std::span<const HeartbeatRecord> heartbeats, SlabMemory memory, BrokerOptions options);
    // One group without a name, or groups with names, of which one at least is required. No optional one spills. Every
    // group's ledger has the same slabs.
    Broker(std::vector<BrokerGroup> groups, SlabExchange& exchange, PeerWatch& watch, const Clock& clock);
    Broker(const Broker&) = delete;
    Broker& operator=(const Broker&) = delete;

    // Call before the first step, over adopted ledgers; by group.
    void adopt(std::span<const AdoptedSlabs> groups);
    void adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters,
               std::span<const SpilledSlab> spilled = {});

    // Takes all waiting messages and slabs, and hands out what it can.
    void step();
    // The part of a step that newly published slabs need, while the stepping thread sleeps in a port's wait(). Called
    // by the thread that has the turn. False: a step is due.
    bool dispatch_inline();
    // Descriptors that call for another step, besides the ports' own. Valid until the next step.
    const std::vector<int>& wait_fds();
    // The longest time until the next step. From here to that step, the exchange notifies of new work; 0 if there is
    // some already.
    std::chrono::nanoseconds patience();
    // Orders every consumer to return what it has not begun and to leave. No slab is handed out after it.
    void abort();
    bool ended() const;
    BrokerReport report() const;

  private:
    void report_to_whole(BrokerOptions& options);

    SlabExchange& exchange_;
    const Clock& clock_;
    GroupBrokers groups_;
    Intake intake_;
    std::optional<WholeSlabs> whole_;             // of groups with names
    std::function<void(PublishedSlab&)> number_;  // empty for one group
    std::vector<int> wait_fds_;
};

}  // namespace offramp
