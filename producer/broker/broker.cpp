#include "producer/broker/broker.hpp"

#include <algorithm>

#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "producer/broker/peer.hpp"

namespace offramp {

Broker::Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
               std::span<const ConsumerCell> cells, SlabMemory memory, BrokerOptions options)
    : state_(ledger, port, exchange, watch, clock, cells, std::move(memory), std::move(options)) {}

void Broker::step() {
    take_published();
    take_release_messages();
    take_work_messages();
    bury_the_dead();
    look_at_leases();
    state_.peers.remove_gone();
    free_what_is_set_aside();
    take_spill_outcome();
    grant_slabs();
    hand_out();
    see_to_the_spill();
    set_next_aside();
    acknowledge_releases();
    see_to_the_end();
}

const std::vector<int>& Broker::wait_fds() { return state_.peers.wait_fds(state_.exchange.wake_fd()); }

std::chrono::nanoseconds Broker::patience() {
    if (state_.exchange.listen()) return {};
    const TimePoint now = state_.clock.now();
    std::chrono::nanoseconds patience = kLeaseLookInterval;
    if (state_.options.spill && state_.exchange.waiting()) patience = std::min<std::chrono::nanoseconds>(patience, kSpillPatience);
    for (const auto& [id, peer] : state_.peers)
        if (peer->releases_seen > peer->acknowledged)
            patience = peer->draining ? std::chrono::nanoseconds{}
                                      : std::min<std::chrono::nanoseconds>(
                                            patience, peer->acknowledged_at + kAcknowledgeInterval - now);
    return std::max(patience, std::chrono::nanoseconds{});
}

void Broker::abort() {
    aborting_ = true;
    for (auto& [id, peer] : state_.peers) send_drain(*peer, DrainReason::Aborted);
}

BrokerReport Broker::report() const {
    BrokerReport report = state_.books;
    report.slabs = state_.ledger.counts();
    report.ended = ended_;
    for (std::uint32_t slab = 0; slab < state_.ledger.slab_count(); ++slab) {
        const SlabState state = state_.ledger.word(slab).state;
        if (state == SlabState::Ready || state == SlabState::Leased)
            report.in_flight.add(state_.fillings[slab].published);
    }
    report.consumers = state_.peers.reports();
    describe_holds(report);
    describe_shortage(report);
    std::sort(report.consumers.begin(), report.consumers.end(),
              [](const ConsumerReport& a, const ConsumerReport& b) { return a.session < b.session; });
    return report;
}

void Broker::take_published() {
    const SlabExchange::Taken taken = state_.exchange.take();
    for (const std::uint32_t slab : taken.abandoned) state_.ledger.abandon(slab);
    for (const PublishedSlab& published : taken.published) {
        const TraceRange range(TraceName::Publish, published.first_batch);
        state_.count_step(CountedStep::Publish, published);
        state_.ledger.publish(published.slab);
        state_.fillings[published.slab] = {.published = published};
        state_.books.published.add(published);
        state_.ready.append(published.slab);
    }
    finished_ = finished_ || taken.finished;
}

void Broker::grant_slabs() {
    const std::uint32_t wanted = state_.exchange.grants_wanted(state_.ledger.slab_count());
    grants_.clear();
    while (grants_.size() < wanted) {
        const auto slab = state_.ledger.acquire(state_.memory.usable);
        if (!slab) break;
        grants_.push_back({*slab, state_.ledger.word(*slab).generation, state_.memory.bytes_of(*slab)});
    }
    state_.exchange.grant(grants_);
    if (!grants_.empty()) egress_waits_since_.reset();   // it has one; its thread may not know yet
    // A pool that is still being made is no shortage.
    if (grants_.size() < wanted && state_.ledger.counts()[static_cast<std::size_t>(SlabState::Free)] == 0) state_.exchange.note_shortage();
}

void Broker::see_to_the_end() {
    if (ended_ || !(finished_ || aborting_)) return;
    for (const std::uint32_t slab : state_.exchange.withdraw_grants()) state_.ledger.abandon(slab);
    const auto counts = state_.ledger.counts();
    const auto of = [&](SlabState state) { return counts[static_cast<std::size_t>(state)]; };
    // What is given up must be on the disk, or have failed to get there.
    const bool nothing_in_flight = of(SlabState::Filling) == 0 && of(SlabState::Ready) == 0 &&
                                   of(SlabState::Leased) == 0 && of(SlabState::Quarantined) == 0 && spilled_.empty();
    if (!nothing_in_flight && !aborting_) return;
    if (!farewell_until_) {
        farewell_until_ = state_.clock.now() + state_.options.farewell;
        for (auto& [id, peer] : state_.peers)
            send_drain(*peer, aborting_ ? DrainReason::Aborted : DrainReason::RunEnded);
    }
    // What the egress is still copying at an abort is published or abandoned in a moment: it belongs into the books.
    const bool all_said = state_.peers.empty() && of(SlabState::Filling) == 0 && of(SlabState::Quarantined) == 0;
    ended_ = all_said || state_.clock.now() >= *farewell_until_;
    if (ended_ && !state_.peers.empty())
        spdlog::warn("{} consumers did not say goodbye in time", state_.peers.size());
}

void Broker::send_drain(Peer& peer, DrainReason reason) {
    peer.draining = true;
    if (peer.admitted)
        state_.port.send(peer.routing_id, encode(Drain{peer.ref.session, static_cast<std::uint32_t>(reason), 0}));
}

}  // namespace offramp
