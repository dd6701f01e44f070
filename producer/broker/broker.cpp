#include "producer/broker/broker.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/trace.hpp"

namespace offramp {

Broker::Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
               std::span<const HeartbeatRecord> heartbeats, SlabMemory memory, BrokerOptions options)
    : ledger_(ledger),
      port_(port),
      exchange_(exchange),
      clock_(clock),
      memory_(std::move(memory)),
      options_(std::move(options)),
      peers_(heartbeats),
      slab_records_(ledger.slab_count(), clock),
      ready_(ledger, clock),
      returns_(ledger, slab_records_, ready_, totals_),
      run_end_(ledger, port, exchange, clock, options_, peers_),
      intake_(ledger, exchange, memory_, options_.progress, slab_records_, ready_, totals_, run_end_),
      shortage_(ledger, exchange, clock, peers_, slab_records_),
      spill_(ledger, exchange, clock, memory_, options_, slab_records_, ready_, totals_, run_end_),
      dead_letters_(ledger, options_, slab_records_, totals_),
      liveness_(ledger, exchange, watch, clock, memory_, options_, peers_, slab_records_, ready_, totals_, returns_,
                run_end_),
      continued_(ledger, port, watch, clock, options_, peers_, slab_records_, ready_, totals_, returns_, run_end_),
      admission_(ledger, port, watch, clock, memory_, options_, peers_, totals_.refused, returns_, continued_,
                 run_end_),
      dispatcher_(ledger, port, clock, options_, peers_, slab_records_, ready_, totals_, dead_letters_, spill_,
                  run_end_) {}

void Broker::adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters,
                   std::span<const SpilledSlab> spilled) {
    continued_.adopt(in_flight, dead_letters);
    for (const PublishedSlab& slab : dead_letters) dead_letters_.enqueue(slab.slab);
    spill_.adopt(spilled);
    continued_.expect_consumers_back();
}

void Broker::step() {
    intake_.take_published();
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
    if (intake_.grant_slabs()) spill_.note_egress_served();
    intake_.report_shortage();
    dispatcher_.dispatch();
    spill_.set_to_work();
    if (spill_.drop_oldest()) intake_.grant_slabs();
    dead_letters_.write_next();
    dispatcher_.acknowledge_releases();
    run_end_.finish(spill_.empty());
}

bool Broker::dispatch_inline() {
    if (run_end_.closing() || !spill_.empty() || spill_.is_wanted()) return false;
    intake_.take_slabs();
    if (intake_.grant_slabs()) spill_.note_egress_served();
    dispatcher_.dispatch();
    dispatcher_.acknowledge_releases();
    // Messages may be waiting, seen while sending or not at all. A release among them frees a slab.
    if (dead_letters_.has_next() || port_.may_have_messages()) return false;
    intake_.report_shortage();
    return !exchange_.listen();
}

const std::vector<int>& Broker::wait_fds() { return peers_.wait_fds(exchange_.wake_fd()); }

std::chrono::nanoseconds Broker::patience() {
    if (exchange_.listen()) return {};
    const TimePoint now = clock_.now();
    std::chrono::nanoseconds longest = LivenessMonitor::kLookInterval;
    if (spill_.is_wanted()) longest = std::min(longest, Spill::kPatience);
    return dispatcher_.patience(now, longest);
}

BrokerReport Broker::report() const {
    BrokerReport report = totals_;
    report.ended = ended();
    report.slab_states.reserve(ledger_.slab_count());
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
        const SlabState state = ledger_.word(slab).state;
        report.slab_states.push_back(state);
        if (state == SlabState::Ready || state == SlabState::Leased)
            report.in_flight += slab_records_[slab].published.totals();
    }
    shortage_.describe(report);
    std::sort(report.consumers.begin(), report.consumers.end(),
              [](const ConsumerReport& a, const ConsumerReport& b) { return a.session < b.session; });
    return report;
}

void Intake::take_published() {
    const SlabExchange::Taken taken = exchange_.take();
    for (const std::uint32_t slab : taken.abandoned) ledger_.abandon(slab);
    publish(taken.published);
    if (taken.finished) run_end_.egress_finished();
}

void Intake::publish(std::span<const PublishedSlab> slabs) {
    for (const PublishedSlab& published : slabs) {
        const TraceRange range(TraceName::Publish, published.first_batch);
        count_step(progress_, CountedStep::Publish, published, ledger_);
        ledger_.publish(published.slab);
        slab_records_[published.slab] = {.published = published};
        totals_.published += published.totals();
        ready_.append(published.slab);
    }
}

bool Intake::grant_slabs() {
    const std::uint32_t wanted = exchange_.grants_wanted(ledger_.slab_count());
    grants_.clear();
    while (grants_.size() < wanted) {
        const auto slab = ledger_.acquire(memory_.usable);
        if (!slab) break;
        grants_.push_back({*slab, ledger_.word(*slab).generation, memory_.bytes_of(*slab)});
    }
    exchange_.grant(grants_);
    // A pool that is still being made is not a shortage.
    is_short_ = grants_.size() < wanted && ledger_.count(SlabState::Free) == 0;
    return !grants_.empty();
}

void Intake::report_shortage() {
    if (is_short_) exchange_.note_shortage();
}

}  // namespace offramp
