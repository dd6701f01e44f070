// The broker's deliveries: releases in, tickets out.

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "producer/slab/broker.hpp"
#include "producer/slab/broker_peer.hpp"

namespace offramp {
namespace {

constexpr int kReleaseMessagesPerStep = 1024;
constexpr std::chrono::nanoseconds kFirstReturnDelay = std::chrono::milliseconds(100);
constexpr std::uint32_t kMaxReturnDoublings = 6;
// So many ready slabs are kept for consumers that hold nothing: at a run's end nobody should sit on two while another is idle.
constexpr std::size_t kReadyForIdleOnly = 2;

}  // namespace

// --- releases ---

void Broker::take_release_messages() {
    Inbound inbound;
    for (int taken = 0; taken < kReleaseMessagesPerStep && port_.try_receive_release(inbound); ++taken) {
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message || message.type != MessageType::Releases) {
            count("release message: " +
                  (message ? std::string("another type") : std::string(to_string(message.problem))));
            continue;
        }
        on_releases(inbound, message);
    }
}

void Broker::on_releases(const Inbound& inbound, const ParsedMessage& message) {
    const auto releases = message.as<Releases>();
    Peer* peer = find_session(releases.session);
    if (peer == nullptr) {
        count("release of an unknown session");
        return;
    }
    // The session's number is no secret; the kernel's word on the sender is what counts.
    if (inbound.credentials.pid != peer->credentials.pid || inbound.credentials.uid != peer->credentials.uid) {
        count("release in another's name");
        return;
    }
    std::uint64_t sequence = releases.first_sequence;
    for (const ReleaseRecord& record : message.records_of<Releases>()) {
        if (sequence <= peer->releases_seen) {
            ++books_.repeated_releases;
        } else if (sequence == peer->releases_seen + 1) {
            peer->releases_seen = sequence;
            on_release(*peer, record);
        } else {
            count("release beyond a gap");
            break;
        }
        ++sequence;
    }
    peer->acknowledge = true;
}

void Broker::on_release(Peer& peer, const ReleaseRecord& record) {
    const auto kind = static_cast<ReleaseKind>(record.kind);
    const ReleaseOutcome outcome = ledger_.release(peer.ref, record.ticket, kind);
    ++books_.releases[static_cast<std::size_t>(outcome)];
    if (outcome != ReleaseOutcome::Completed && outcome != ReleaseOutcome::HolderRemoved &&
        outcome != ReleaseOutcome::Returned)
        return;
    --peer.held;
    const std::uint32_t slab = record.ticket.slab;
    if (outcome == ReleaseOutcome::Completed) {
        const PublishedSlab& published = fillings_[slab].published;
        books_.completed.add(published);
        peer.completed.add(published);
        books_.last_release_ns = to_ns(clock_.now());
        if (books_.first_release_ns == 0) books_.first_release_ns = books_.last_release_ns;
        if (books_.steady_since_ns == 0 && books_.completed.batches >= options_.warmup_batches) {
            books_.steady_since_ns = books_.last_release_ns;
            books_.before_steady = books_.completed;
        }
    } else if (outcome == ReleaseOutcome::Returned) {
        // A consumer that drains gives back what it has not begun: nobody need wait. Otherwise its sink is away: back off.
        const std::uint32_t returns = peer.draining ? 0 : ++fillings_[slab].returns;
        make_ready(slab, returns == 0 ? std::chrono::nanoseconds{}
                                      : kFirstReturnDelay * (1U << std::min(returns - 1, kMaxReturnDoublings)),
                   false);
    }
}

void Broker::acknowledge_releases() {
    for (auto& [id, peer] : peers_) {
        if (!peer->acknowledge) continue;
        // Not taken now: the consumer repeats its release, and is answered then.
        port_.send(peer->routing_id, encode(ReleaseAck{peer->ref.session, peer->releases_seen}));
        peer->acknowledge = false;
    }
}

Broker::Peer* Broker::find_session(std::uint64_t session) {
    for (auto& [id, peer] : peers_)
        if (peer->admitted && !peer->gone && peer->ref.session == session) return peer.get();
    return nullptr;
}

// --- tickets ---

// A slab has just become Ready: behind the others, or, when it has been out before, ahead of them.
void Broker::make_ready(std::uint32_t slab, std::chrono::nanoseconds delay, bool first) {
    const ReadySlab entry{slab, ledger_.word(slab).generation, clock_.now() + delay};
    if (first)
        ready_.push_back(entry);
    else
        ready_.push_front(entry);
}

void Broker::give_up(std::uint32_t slab) {
    const Filling& filling = fillings_[slab];
    ledger_.quarantine(slab);
    books_.quarantined.add(filling.published);
    books_.given_up.push_back({.first_batch = filling.published.first_batch,
                               .samples = filling.published.samples,
                               .deaths = ledger_.charges(slab),
                               .pids = filling.killed_pids});
    spdlog::error("batch {} took down {} consumers and is given up: {} samples", filling.published.first_batch,
                  ledger_.charges(slab), filling.published.samples);
    ledger_.discard(slab);
}

void Broker::hand_out() {
    if (aborting_ || farewell_until_) return;
    const TimePoint now = clock_.now();
    std::deque<ReadySlab> kept;
    while (!ready_.empty()) {
        const ReadySlab entry = ready_.front();
        const std::size_t waiting = ready_.size() + kept.size();
        ready_.pop_front();
        const SlabWord word = ledger_.word(entry.slab);
        if (word.state != SlabState::Ready || word.generation != entry.generation) continue;   // completed late, or given up
        if (ledger_.charges(entry.slab) >= options_.max_charges || word.attempt >= kMaxAttempt) {
            give_up(entry.slab);
            continue;
        }
        Peer* peer = entry.not_before <= now ? best_peer(entry.slab, waiting <= kReadyForIdleOnly) : nullptr;
        if (peer == nullptr) {
            kept.push_back(entry);
            continue;
        }
        peer->to_send.push_back(ledger_.lease(entry.slab, peer->ref));
        if (peer->held == 0) peer->alive_at = now;
        ++peer->held;
        peer->last_served = ++serve_counter_;
    }
    ready_ = std::move(kept);
    send_tickets();
}

Broker::Peer* Broker::best_peer(std::uint32_t slab, bool idle_only) {
    Peer* best = nullptr;
    for (auto& [id, candidate] : peers_) {
        Peer* peer = candidate.get();
        if (!peer->admitted || peer->gone || peer->draining || peer->hung) continue;
        if (peer->held >= (idle_only ? std::min(peer->window, 1U) : peer->window)) continue;
        if (best != nullptr && (peer->held > best->held ||
                                (peer->held == best->held && peer->last_served > best->last_served)))
            continue;
        if (ledger_.can_lease(slab, peer->ref)) best = peer;
    }
    return best;
}

void Broker::send_tickets() {
    for (auto& [id, peer] : peers_) {
        if (peer->to_send.empty()) continue;
        const auto count = static_cast<std::uint32_t>(peer->to_send.size());
        const SendOutcome outcome = port_.send(
            peer->routing_id, encode(Tickets{peer->ref.session, peer->next_delivery}, peer->to_send));
        if (outcome == SendOutcome::Sent) {
            peer->next_delivery += count;
            books_.deliveries += count;
            for (const SlabTicket& ticket : peer->to_send)
                if (fillings_[ticket.slab].deliveries++ > 0) books_.redelivered.add(fillings_[ticket.slab].published);
        } else {
            // Nothing was sent: the hold that was recorded ahead of the ticket goes again.
            for (const SlabTicket& ticket : peer->to_send) {
                ledger_.take_back(ticket, peer->ref);
                make_ready(ticket.slab, kFirstReturnDelay, false);
                --peer->held;
            }
            peer->draining = peer->draining || outcome == SendOutcome::PeerGone;   // its connection is cut
            this->count(outcome == SendOutcome::PeerGone ? "ticket for a peer that is gone" : "ticket not taken");
        }
        peer->to_send.clear();
    }
}

}  // namespace offramp
