#include "producer/broker/broker.hpp"

#include <algorithm>
#include <utility>

namespace offramp {

Broker::Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
               std::span<const HeartbeatRecord> heartbeats, SlabMemory memory, BrokerOptions options)
    : state_(ledger, port, exchange, watch, clock, heartbeats, std::move(memory), std::move(options)),
      run_end_(state_),
      intake_(state_, run_end_),
      shortage_(state_),
      spill_(state_, run_end_),
      dead_letters_(state_),
      liveness_(state_, run_end_),
      continued_(state_, run_end_),
      admission_(state_, continued_, run_end_),
      dispatcher_(state_, dead_letters_, spill_, run_end_) {}

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
    state_.peers.remove_gone();
    dead_letters_.free_written();
    spill_.take_outcome();
    if (intake_.grant_slabs()) spill_.note_egress_served();
    intake_.report_shortage();
    dispatcher_.dispatch();
    spill_.set_to_work();
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
    if (dead_letters_.has_next() || state_.port.may_have_messages()) return false;
    intake_.report_shortage();
    return !state_.exchange.listen();
}

const std::vector<int>& Broker::wait_fds() { return state_.peers.wait_fds(state_.exchange.wake_fd()); }

std::chrono::nanoseconds Broker::patience() {
    if (state_.exchange.listen()) return {};
    const TimePoint now = state_.clock.now();
    std::chrono::nanoseconds longest = LivenessMonitor::kLookInterval;
    if (spill_.is_wanted()) longest = std::min(longest, Spill::kPatience);
    return dispatcher_.patience(now, longest);
}

BrokerReport Broker::report() const {
    BrokerReport report = state_.totals;
    report.ended = ended();
    report.slab_states.reserve(state_.ledger.slab_count());
    for (std::uint32_t slab = 0; slab < state_.ledger.slab_count(); ++slab) {
        const SlabState state = state_.ledger.word(slab).state;
        report.slab_states.push_back(state);
        if (state == SlabState::Ready || state == SlabState::Leased)
            report.in_flight += state_.slab_records[slab].published.totals();
    }
    shortage_.describe(report);
    std::sort(report.consumers.begin(), report.consumers.end(),
              [](const ConsumerReport& a, const ConsumerReport& b) { return a.session < b.session; });
    return report;
}

}  // namespace offramp
