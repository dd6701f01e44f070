// The broker's deliveries: releases in, tickets out.

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "producer/broker/broker.hpp"
#include "producer/broker/broker_peer.hpp"

namespace offramp {
namespace {

constexpr int kReleaseMessagesPerStep = 1024;
// A release is repeated after 100 ms without an acknowledgement: far sooner, and not for each.
constexpr std::uint64_t kReleasesAnAcknowledgement = 256;
constexpr std::chrono::nanoseconds kFirstReturnDelay = std::chrono::milliseconds(100);
constexpr std::uint32_t kMaxReturnDoublings = 6;
// So many ready slabs are kept for consumers that hold nothing: at a run's end nobody should sit on two while another is idle.
constexpr std::size_t kReadyForIdleOnly = 2;

// A consumer that drains gives back what it has not begun: nobody need wait. Any other return, and every further one, says that a sink
// is away: back off. (A consumer whose sink is away leaves as well, and its two messages may come in either order.)
std::chrono::nanoseconds return_delay(std::uint32_t returns, bool draining) {
    const std::uint32_t free = draining ? 1 : 0;
    if (returns <= free) return {};
    return kFirstReturnDelay * (1U << std::min(returns - 1 - free, kMaxReturnDoublings));
}

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
            peer->in_doubt = true;
        } else if (sequence == peer->releases_seen + 1) {
            peer->releases_seen = sequence;
            on_release(*peer, record);
        } else {
            count("release beyond a gap");
            peer->in_doubt = true;
            break;
        }
        ++sequence;
    }
}

void Broker::on_release(Peer& peer, const ReleaseRecord& record) {
    const auto kind = static_cast<ReleaseKind>(record.kind);
    if (ledger_.completes(peer.ref, record.ticket, kind))
        count_step(CountedStep::Complete, fillings_[record.ticket.slab].published);
    const ReleaseOutcome outcome = ledger_.release(peer.ref, record.ticket, kind);
    ++books_.releases[static_cast<std::size_t>(outcome)];
    if (outcome != ReleaseOutcome::Completed && outcome != ReleaseOutcome::HolderRemoved &&
        outcome != ReleaseOutcome::Returned)
        return;
    --peer.held;
    const std::uint32_t slab = record.ticket.slab;
    if (kind == ReleaseKind::Returned) note_failed(slab, record.ticket.attempt, peer, "returned", false);
    if (outcome == ReleaseOutcome::Completed) {
        const PublishedSlab& published = fillings_[slab].published;
        books_.completed.add(published);
        if (options_.on_completed) options_.on_completed(published);
        peer.completed.add(published);
        books_.last_release_ns = to_ns(clock_.now());
        if (books_.first_release_ns == 0) books_.first_release_ns = books_.last_release_ns;
        if (books_.steady_since_ns == 0 && books_.completed.batches >= options_.warmup_batches) {
            books_.steady_since_ns = books_.last_release_ns;
            books_.before_steady = books_.completed;
        }
    } else if (outcome == ReleaseOutcome::Returned) {
        make_ready(slab, return_delay(++fillings_[slab].returns, peer.draining), false);
    }
}

void Broker::acknowledge_releases() {
    const TimePoint now = clock_.now();
    for (auto& [id, peer] : peers_) {
        const std::uint64_t news = peer->releases_seen - peer->acknowledged;
        // A consumer waits for an acknowledgement only before its goodbye; otherwise a few of them are one message.
        const bool due = news > 0 && (peer->draining || news >= kReleasesAnAcknowledgement ||
                                      now - peer->acknowledged_at >= kAcknowledgeInterval);
        if (!due && !peer->in_doubt) continue;
        peer->in_doubt = false;
        failpoint("broker.acknowledge");
        // Not taken now: the consumer repeats its release, and is answered then.
        port_.send(peer->routing_id, encode(ReleaseAck{peer->ref.session, peer->releases_seen}));
        peer->acknowledged = peer->releases_seen;
        if (news > 0) peer->acknowledged_at = now;
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

void Broker::hand_out() {
    if (aborting_ || farewell_until_ || ready_.empty()) return;
    list_serving();
    const TimePoint now = clock_.now();
    const std::size_t all = ready_.size();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < all; ++i) {
        const ReadySlab entry = ready_[i];
        const SlabWord word = ledger_.word(entry.slab);
        if (word.state != SlabState::Ready || word.generation != entry.generation) continue;   // completed late, or given up
        if (entry.slab == spilling_) {
            ready_[kept++] = entry;
            continue;
        }
        if (ledger_.charges(entry.slab) >= options_.max_charges || word.attempt >= kMaxAttempt) {
            give_up(entry.slab);
            continue;
        }
        const bool idle_only = kept + all - i <= kReadyForIdleOnly;
        Peer* peer = entry.not_before <= now ? best_peer(entry.slab, idle_only) : nullptr;
        if (peer == nullptr) {
            ready_[kept++] = entry;
            continue;
        }
        peer->to_send.push_back(ledger_.lease(entry.slab, peer->ref));
        fillings_[entry.slab].leased_at = now;
        if (peer->held == 0) peer->alive_at = now;
        ++peer->held;
        --room_;
        peer->last_served = ++serve_counter_;
    }
    ready_.resize(kept);
    send_tickets();
}

void Broker::list_serving() {
    serving_.clear();
    room_ = 0;
    for (auto& [id, peer] : peers_) {
        if (!peer->admitted || peer->gone || peer->draining || peer->hung || peer->held >= peer->window) continue;
        serving_.push_back(peer.get());
        room_ += peer->window - peer->held;
    }
}

// Whoever holds least, of equals who waited longest.
Broker::Peer* Broker::best_peer(std::uint32_t slab, bool idle_only) {
    if (room_ == 0) return nullptr;
    Peer* best = nullptr;
    for (Peer* const peer : serving_) {
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
        failpoint("broker.tickets");
        const SendOutcome outcome = port_.send(
            peer->routing_id, encode(Tickets{peer->ref.session, peer->next_delivery}, peer->to_send));
        if (outcome == SendOutcome::Sent) {
            failpoint("broker.tickets.sent");
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
