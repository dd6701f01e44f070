#include "producer/broker/group_broker.hpp"

#include <algorithm>
#include <utility>

#include "common/base/trace.hpp"
#include "producer/broker/run_records.hpp"

namespace offramp {

GroupBroker::GroupBroker(BrokerGroup group, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
                         std::shared_ptr<DeadLetterList> dead_letters)
    : ledger_(group.ledger),
      port_(group.port),
      exchange_(exchange),
      memory_(std::move(group.memory)),
      options_(std::move(group.options)),
      peers_(group.heartbeats),
      slab_records_(ledger_.slab_count(), clock),
      ready_(ledger_, clock),
      returns_(ledger_, slab_records_, ready_, totals_),
      run_end_(ledger_, port_, clock, options_, peers_),
      shortage_(ledger_, exchange, clock, options_, peers_, slab_records_),
      spill_(ledger_, exchange, clock, memory_, options_, slab_records_, ready_, totals_, run_end_),
      dead_letters_(ledger_, options_, slab_records_, totals_),
      liveness_(ledger_, exchange, watch, clock, memory_, options_, peers_, slab_records_, ready_, totals_, returns_,
                run_end_),
      continued_(ledger_, port_, watch, clock, options_, peers_, slab_records_, ready_, totals_, returns_, run_end_),
      admission_(ledger_, port_, watch, clock, memory_, options_, peers_, totals_.refused, returns_, continued_,
                 run_end_),
      dispatcher_(ledger_, port_, clock, options_, peers_, slab_records_, ready_, totals_, dead_letters_, spill_,
                  run_end_) {
    totals_.dead_letters = std::move(dead_letters);
}

void GroupBroker::adopt(const AdoptedSlabs& adopted) {
    continued_.adopt(adopted.in_flight, adopted.dead_letters);
    if (!options_.group.empty()) {
        const SlabTotals dropped = counted().dropped_waiting;
        totals_.published += dropped;
        totals_.dropped += dropped;
    }
    for (const PublishedSlab& slab : adopted.dead_letters) dead_letters_.enqueue(slab.slab);
    spill_.adopt(adopted.spilled);
    continued_.expect_consumers_back();
}

void GroupBroker::take(PublishedSlab published) {
    const TraceRange range(TraceName::Publish, published.first_batch);
    count_step(options_.progress, CountedStep::Publish, published, ledger_);
    const std::uint32_t slab = published.slab;
    ledger_.publish(slab);
    totals_.published += published.totals();
    slab_records_[slab] = {.published = std::move(published)};
    ready_.append(slab);
}

void GroupBroker::take_messages() {
    dispatcher_.take_releases();
    admission_.take_messages();
    if (liveness_.poll_deaths()) {
        // The dead consumer's last release or Disconnect may have come in since, and still counts.
        dispatcher_.take_releases();
        admission_.take_messages();
        liveness_.reap_dead_peers();
    }
    if (const auto now = liveness_.begin_look()) {
        shortage_.watch(*now);
        liveness_.check_visibility_timeouts(*now);
    }
    peers_.remove_gone();
    dead_letters_.free_written();
    spill_.take_outcome();
}

void GroupBroker::hand_out() {
    dispatcher_.dispatch();
    spill_.set_to_work();
}

void GroupBroker::hurry() {
    run_end_.hurry();
    while (const auto slab = spill_.oldest_waiting()) spill_.drop(*slab);
}

void GroupBroker::finish() {
    dead_letters_.write_next();
    dispatcher_.acknowledge_releases();
    run_end_.finish(spill_.empty());
}

void GroupBroker::hand_out_new() {
    dispatcher_.dispatch();
    dispatcher_.acknowledge_releases();
}

std::chrono::nanoseconds GroupBroker::patience(TimePoint now) const {
    std::chrono::nanoseconds longest = LivenessMonitor::kLookInterval;
    if (spill_.is_wanted()) longest = std::min(longest, Spill::kPatience);
    return dispatcher_.patience(now, longest);
}

bool GroupBroker::may_drop(std::uint32_t slab) const {
    return drops_oldest() && ledger_.word(slab).state == SlabState::Ready && ledger_.holders(slab).empty();
}

bool GroupBroker::may_spill(std::uint32_t slab) const {
    return options_.spill && ledger_.word(slab).state == SlabState::Ready && ledger_.holders(slab).empty() &&
           ledger_.failures(slab) == 0;
}

void GroupBroker::visit_open(const std::function<void(const PublishedSlab&, bool)>& visit) const {
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab)
        if (const SlabState state = ledger_.word(slab).state; state == SlabState::Ready || state == SlabState::Leased)
            visit(slab_records_[slab].published, ledger_.is_lost(slab));
    for (const SpilledSlab& slab : spill_.on_disk()) visit(slab.published, slab.file.lost);
}

void GroupBroker::mark_lost(const PublishedSlab& lost, bool moved) {
    const std::uint32_t begin = moved ? 0 : lost.slab, end = moved ? ledger_.slab_count() : lost.slab + 1;
    for (std::uint32_t slab = begin; slab < end; ++slab)
        if (const SlabState state = ledger_.word(slab).state;
            (state == SlabState::Ready || state == SlabState::Leased) &&
            slab_records_[slab].published.filling == lost.filling)
            ledger_.mark_lost(slab);
    spill_.mark_lost(lost.filling);
}

BrokerReport GroupBroker::report(bool short_together) const {
    BrokerReport report = totals_;
    report.ended = ended();
    report.slab_states.reserve(ledger_.slab_count());
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
        const SlabState state = ledger_.word(slab).state;
        report.slab_states.push_back(state);
        if (state == SlabState::Ready || state == SlabState::Leased)
            report.in_flight += slab_records_[slab].published.totals();
    }
    shortage_.describe(report, short_together);
    for (ConsumerReport& consumer : report.consumers) consumer.group = options_.group;
    std::sort(report.consumers.begin(), report.consumers.end(),
              [](const ConsumerReport& a, const ConsumerReport& b) { return a.session < b.session; });
    return report;
}

GroupReport GroupBroker::group_report(const BrokerReport& of_it) const {
    return {.name = options_.group,
            .optional = options_.policy.optional,
            .published = of_it.published,
            .completed = of_it.completed,
            .dead_lettered = of_it.dead_lettered,
            .in_flight = of_it.in_flight,
            .spilled = of_it.spilled,
            .ever_spilled = of_it.ever_spilled,
            .dropped = of_it.dropped,
            .slabs = of_it.slabs,
            .last_release_ns = of_it.last_release_ns,
            .consumers = static_cast<std::uint32_t>(peers_.present()),
            .shortage = of_it.shortage,
            .when_full = options_.policy.drops_oldest() ? WhenFull::DropOldest : options_.policy.when_full};
}

}  // namespace offramp
