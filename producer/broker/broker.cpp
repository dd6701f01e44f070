#include "producer/broker/broker.hpp"

#include <algorithm>

#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "producer/broker/broker_peer.hpp"

namespace offramp {

Broker::Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
               std::span<const ConsumerCell> cells, SlabMemory memory, BrokerOptions options)
    : ledger_(ledger),
      port_(port),
      exchange_(exchange),
      watch_(watch),
      clock_(clock),
      cells_(cells),
      memory_(std::move(memory)),
      options_(std::move(options)),
      fillings_(ledger.slab_count()) {}

Broker::~Broker() = default;

void Broker::step() {
    take_published();
    take_release_messages();
    take_work_messages();
    bury_the_dead();
    look_at_leases();
    if (std::erase_if(peers_, [](const auto& entry) { return entry.second->gone; }) > 0) wait_fds_.clear();
    free_what_is_set_aside();
    take_spill_outcome();
    grant_slabs();
    hand_out();
    see_to_the_spill();
    set_next_aside();
    acknowledge_releases();
    see_to_the_end();
}

const std::vector<int>& Broker::wait_fds() {
    if (wait_fds_.empty()) {
        wait_fds_.push_back(exchange_.wake_fd());
        wait_ids_.clear();
        for (const auto& [id, peer] : peers_) {
            wait_fds_.push_back(peer->watched.died.get());
            wait_ids_.push_back(id);
        }
    }
    return wait_fds_;
}

std::chrono::nanoseconds Broker::patience() {
    if (exchange_.listen()) return {};
    const TimePoint now = clock_.now();
    std::chrono::nanoseconds patience = kLeaseLookInterval;
    if (options_.spill && exchange_.waiting()) patience = std::min<std::chrono::nanoseconds>(patience, kSpillPatience);
    for (const auto& [id, peer] : peers_)
        if (peer->releases_seen > peer->acknowledged)
            patience = peer->draining ? std::chrono::nanoseconds{}
                                      : std::min<std::chrono::nanoseconds>(
                                            patience, peer->acknowledged_at + kAcknowledgeInterval - now);
    return std::max(patience, std::chrono::nanoseconds{});
}

void Broker::abort() {
    aborting_ = true;
    for (auto& [id, peer] : peers_) send_drain(*peer, DrainReason::Aborted);
}

BrokerReport Broker::report() const {
    BrokerReport report = books_;
    report.slabs = ledger_.counts();
    report.ended = ended_;
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
        const SlabState state = ledger_.word(slab).state;
        if (state == SlabState::Ready || state == SlabState::Leased)
            report.in_flight.add(fillings_[slab].published);
    }
    for (const auto& [id, peer] : peers_) {
        if (!peer->admitted) continue;
        report.consumers.push_back(
            {.pid = static_cast<std::uint64_t>(peer->credentials.pid),
             .session = peer->ref.session,
             .slot = peer->ref.slot,
             .holding = peer->held,
             .completed = peer->completed,
             .busy_seconds = busy_seconds(*peer)});
    }
    describe_holds(report);
    describe_shortage(report);
    std::sort(report.consumers.begin(), report.consumers.end(),
              [](const ConsumerReport& a, const ConsumerReport& b) { return a.session < b.session; });
    return report;
}

void Broker::take_published() {
    const SlabExchange::Taken taken = exchange_.take();
    for (const std::uint32_t slab : taken.abandoned) ledger_.abandon(slab);
    for (const PublishedSlab& published : taken.published) {
        const TraceRange range(TraceName::Publish, published.first_batch);
        count_step(CountedStep::Publish, published);
        ledger_.publish(published.slab);
        fillings_[published.slab] = {.published = published};
        books_.published.add(published);
        make_ready(published.slab, {}, true);
    }
    finished_ = finished_ || taken.finished;
}

void Broker::grant_slabs() {
    const std::uint32_t wanted = exchange_.grants_wanted(ledger_.slab_count());
    grants_.clear();
    while (grants_.size() < wanted) {
        const auto slab = ledger_.acquire(memory_.usable);
        if (!slab) break;
        grants_.push_back({*slab, ledger_.word(*slab).generation, memory_.bytes_of(*slab)});
    }
    exchange_.grant(grants_);
    if (!grants_.empty()) egress_waits_since_.reset();   // it has one; its thread may not know yet
    // A pool that is still being made is no shortage.
    if (grants_.size() < wanted && ledger_.counts()[static_cast<std::size_t>(SlabState::Free)] == 0) exchange_.note_shortage();
}

void Broker::see_to_the_end() {
    if (ended_ || !(finished_ || aborting_)) return;
    for (const std::uint32_t slab : exchange_.withdraw_grants()) ledger_.abandon(slab);
    const auto counts = ledger_.counts();
    const auto of = [&](SlabState state) { return counts[static_cast<std::size_t>(state)]; };
    // What is given up must be on the disk, or have failed to get there.
    const bool nothing_in_flight = of(SlabState::Filling) == 0 && of(SlabState::Ready) == 0 &&
                                   of(SlabState::Leased) == 0 && of(SlabState::Quarantined) == 0 && spilled_.empty();
    if (!nothing_in_flight && !aborting_) return;
    if (!farewell_until_) {
        farewell_until_ = clock_.now() + options_.farewell;
        for (auto& [id, peer] : peers_)
            send_drain(*peer, aborting_ ? DrainReason::Aborted : DrainReason::RunEnded);
    }
    // What the egress is still copying at an abort is published or abandoned in a moment: it belongs into the books.
    const bool all_said = peers_.empty() && of(SlabState::Filling) == 0 && of(SlabState::Quarantined) == 0;
    ended_ = all_said || clock_.now() >= *farewell_until_;
    if (ended_ && !peers_.empty())
        spdlog::warn("{} consumers did not say goodbye in time", peers_.size());
}

void Broker::send_drain(Peer& peer, DrainReason reason) {
    peer.draining = true;
    if (peer.admitted)
        port_.send(peer.routing_id, encode(Drain{peer.ref.session, static_cast<std::uint32_t>(reason), 0}));
}

}  // namespace offramp
