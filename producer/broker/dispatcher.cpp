#include "producer/broker/dispatcher.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/utf8.hpp"
#include "producer/broker/refusals.hpp"
#include "producer/broker/run_records.hpp"

namespace offramp {
namespace {

constexpr int kReleaseMessagesPerStep = 1024;
// Far sooner than the 100 ms after which a consumer repeats a release, but not for each release.
constexpr std::uint64_t kReleasesAnAcknowledgement = 256;
// Reasons arrive ahead of their releases: at most this many per consumer.
constexpr std::size_t kMostReasonsAhead = kMaxTicketsPerMessage;
constexpr std::chrono::nanoseconds kFirstReturnDelay = std::chrono::milliseconds(100);
constexpr std::uint32_t kMaxReturnDoublings = 6;
// The last ready slabs go only to idle consumers: at a run's end no consumer should hold two while another is idle.
constexpr std::size_t kReadyForIdleOnly = 2;

// A draining consumer returns what it has not begun: no delay. Any other return, and every further one, suggests an
// unavailable sink: back off. (A consumer whose sink is unavailable also leaves, and its two messages may come in
// either order.)
std::chrono::nanoseconds return_delay(std::uint32_t returns, bool draining) {
    const std::uint32_t free = draining ? 1 : 0;
    if (returns <= free) return {};
    return kFirstReturnDelay * (1U << std::min(returns - 1 - free, kMaxReturnDoublings));
}

}  // namespace

// --- releases ---

void Dispatcher::take_releases() {
    Inbound inbound;
    for (int taken = 0; taken < kReleaseMessagesPerStep && port_.try_receive_release(inbound); ++taken) {
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message)
            ++totals_.refused[words(MessageChannel::Releases, message.problem)];
        else if (message.run != options_.run_nonce)
            ++totals_.refused[words(Refusal::ReleaseOfAnotherRun)];
        else if (message.type == MessageType::Releases)
            on_releases(inbound, message);
        else if (message.type == MessageType::Failure)
            on_failure(inbound, message);
        else
            ++totals_.refused[words(Refusal::AnotherType)];
    }
}

// Null, and counted: another process than the session's sent it.
Peer* Dispatcher::sender(const Inbound& inbound, std::uint64_t session) {
    Peer* peer = peers_.find_session(session);
    if (peer == nullptr) {
        ++totals_.refused[words(Refusal::UnknownSession)];
        return nullptr;
    }
    // The session's number is not a secret: the kernel's credentials identify the sender.
    if (inbound.credentials.pid != peer->credentials.pid || inbound.credentials.uid != peer->credentials.uid) {
        ++totals_.refused[words(Refusal::ReleaseForOtherConsumer)];
        return nullptr;
    }
    return peer;
}

void Dispatcher::on_failure(const Inbound& inbound, const ParsedMessage& message) {
    const auto failure = message.as<Failure>();
    Peer* peer = sender(inbound, failure.session);
    if (peer == nullptr || failure.sequence <= peer->releases_seen) return;
    if (peer->failures.size() >= kMostReasonsAhead) {
        ++totals_.refused[words(Refusal::ReasonWithoutRelease)];
        return;
    }
    peer->failures.insert_or_assign(failure.sequence, printable_lines(get_text(failure.text)));
}

void Dispatcher::on_releases(const Inbound& inbound, const ParsedMessage& message) {
    const auto releases = message.as<Releases>();
    Peer* peer = sender(inbound, releases.session);
    if (peer == nullptr) return;
    std::uint64_t sequence = releases.first_sequence;
    for (const ReleaseRecord& record : message.records_of<Releases>()) {
        if (sequence <= peer->releases_seen) {
            ++totals_.repeated_releases;
            peer->in_doubt = true;
        } else if (sequence == peer->releases_seen + 1) {
            if (peer->releases_seen == peer->acknowledged) peer->unacknowledged_since = clock_.now();
            peer->releases_seen = sequence;
            on_release(*peer, record);
            if (!peer->failures.empty())
                peer->failures.erase(peer->failures.begin(), peer->failures.upper_bound(sequence));
        } else {
            ++totals_.refused[words(Refusal::BeyondAGap)];
            peer->in_doubt = true;
            break;
        }
        ++sequence;
    }
}

void Dispatcher::on_release(Peer& peer, const ReleaseRecord& record) {
    const auto kind = static_cast<ReleaseKind>(record.kind);
    const ReleaseOutcome outcome = ledger_.release(peer.ref, record.ticket, kind, [&] {
        count_step(options_.progress, CountedStep::Complete, slab_records_[record.ticket.slab].published, ledger_);
    });
    ++totals_.releases[static_cast<std::size_t>(outcome)];
    if (outcome == ReleaseOutcome::Foreign || outcome == ReleaseOutcome::Stale || outcome == ReleaseOutcome::Malformed)
        return;
    --peer.held;
    const std::uint32_t slab = record.ticket.slab;
    const TimePoint now = clock_.now();
    if (kind != ReleaseKind::Returned)
        if (const auto since = slab_records_.delivered_at(slab, record.ticket.attempt))
            totals_.process.add(to_ns(now) - to_ns(*since));
    if (is_failure(kind)) return on_failed(peer, record, outcome == ReleaseOutcome::Failed);
    if (kind == ReleaseKind::Returned) slab_records_.note_failed(slab, record.ticket.attempt, peer, "returned", false);
    if (outcome == ReleaseOutcome::Completed) {
        const PublishedSlab& published = slab_records_[slab].published;
        totals_.complete(published.totals(), to_ns(now), options_.warmup_batches);
        if (options_.on_completed) options_.on_completed(published);
        peer.completed += published.totals();
    } else if (outcome == ReleaseOutcome::Returned) {
        ready_.put_ahead(slab, return_delay(++slab_records_[slab].returns, peer.draining));
    }
}

// All consumers live on: the slab goes to one of them, or becomes a dead letter.
void Dispatcher::on_failed(Peer& peer, const ReleaseRecord& record, bool ready_again) {
    const std::uint32_t slab = record.ticket.slab;
    const bool rejected = static_cast<ReleaseKind>(record.kind) == ReleaseKind::Rejected;
    ++totals_.slab_failures;
    const auto why = peer.failures.find(peer.releases_seen);
    SlabRecord& slab_record = slab_records_[slab];
    slab_records_.note_failed(slab, record.ticket.attempt, peer, rejected ? "rejected" : "failed", true,
                              why == peer.failures.end() ? std::string() : why->second);
    ++slab_record.failures;
    if (why != peer.failures.end()) totals_.last_failure = why->second;
    slab_record.rejected = slab_record.rejected || rejected;
    if (ready_again) ready_.put_ahead(slab);
}

void Dispatcher::acknowledge_releases() {
    const TimePoint now = clock_.now();
    for (auto& [id, peer] : peers_) {
        const std::uint64_t new_releases = peer->releases_seen - peer->acknowledged;
        // A consumer waits for an acknowledgement only before its Disconnect: otherwise several share one message.
        const bool served = std::exchange(peer->served, false);
        const bool due = new_releases > 0 && (peer->draining || new_releases >= kReleasesAnAcknowledgement ||
                                              (served && now - peer->acknowledged_at >= kAcknowledgeInterval) ||
                                              now - peer->unacknowledged_since >= kAcknowledgeAlone);
        if (!due && !peer->in_doubt) continue;
        peer->in_doubt = false;
        failpoint("broker.acknowledge");
        // If it is not taken now, the consumer repeats its release and is answered then.
        port_.send(peer->routing_id, encode(options_.run_nonce, ReleaseAck{peer->ref.session, peer->releases_seen}));
        peer->acknowledged = peer->releases_seen;
        if (new_releases > 0) peer->acknowledged_at = now;
    }
}

std::chrono::nanoseconds Dispatcher::patience(TimePoint now, std::chrono::nanoseconds longest) const {
    for (const auto& [id, peer] : peers_)
        if (peer->releases_seen > peer->acknowledged)
            longest = peer->draining ? std::chrono::nanoseconds{}
                                     : std::min<std::chrono::nanoseconds>(
                                           longest, peer->unacknowledged_since + kAcknowledgeAlone - now);
    return std::max(longest, std::chrono::nanoseconds{});
}

// --- tickets ---

void Dispatcher::dispatch() {
    if (run_end_.closing() || ready_.empty()) return;
    list_serving();
    const TimePoint now = clock_.now();
    ready_.walk([&](const ReadySlab& entry, std::size_t left) { return dispatch(entry, left, now); });
    send_tickets();
}

// Returned slabs are at the front, and one of them may be a dead letter: they are checked even when no consumer has
// room. A new slab without room ends the walk, so that a full pool is not searched on every step.
ReadyQueue::Walk Dispatcher::dispatch(const ReadySlab& entry, std::size_t left, TimePoint now) {
    using enum ReadyQueue::Walk;
    const SlabWord word = ledger_.word(entry.slab);
    if (!ReadyQueue::is_current(entry, word)) return Drop;
    if (spill_.is_being_written(entry.slab)) return Keep;
    SlabRecord& slab_record = slab_records_[entry.slab];
    if (ledger_.failures(entry.slab) >= options_.max_failures || word.attempt >= kMaxAttempt || slab_record.rejected) {
        dead_letters_.dead_letter(entry.slab);
        return Drop;
    }
    if (room_ == 0) return word.attempt == 0 ? KeepAndStop : Keep;
    Peer* const peer = entry.not_before <= now ? best_peer(entry.slab, left <= kReadyForIdleOnly) : nullptr;
    if (peer == nullptr) return Keep;
    peer->to_send.push_back(ledger_.lease(entry.slab, peer->ref));
    slab_record.leased_at = now;
    slab_record.attempt = peer->to_send.back().attempt;
    slab_record.waited = now - entry.since;
    if (peer->held == 0) peer->alive_at = now;
    ++peer->held;
    --room_;
    peer->last_served = ++serve_counter_;
    return Drop;
}

void Dispatcher::list_serving() {
    serving_.clear();
    room_ = 0;
    for (auto& [id, peer] : peers_) {
        if (!peer->admitted || peer->gone || peer->draining || peer->stalled || peer->held >= peer->window) continue;
        serving_.push_back(peer.get());
        room_ += peer->window - peer->held;
    }
}

// The consumer with the fewest slabs; among equals, the one that has waited longest.
Peer* Dispatcher::best_peer(std::uint32_t slab, bool idle_only) {
    Peer* best = nullptr;
    for (Peer* const peer : serving_) {
        if (peer->held >= (idle_only ? std::min(peer->window, 1U) : peer->window)) continue;
        if (best != nullptr &&
            (peer->held > best->held || (peer->held == best->held && peer->last_served > best->last_served)))
            continue;
        if (ledger_.can_lease(slab, peer->ref)) best = peer;
    }
    return best;
}

void Dispatcher::send_tickets() {
    for (auto& [id, peer] : peers_) {
        if (peer->to_send.empty()) continue;
        const auto count = static_cast<std::uint32_t>(peer->to_send.size());
        failpoint("broker.tickets");
        const SendOutcome outcome =
            port_.send(peer->routing_id,
                       encode(options_.run_nonce, Tickets{peer->ref.session, peer->next_delivery}, peer->to_send));
        if (outcome == SendOutcome::Sent) {
            failpoint("broker.tickets.sent");
            peer->served = true;
            peer->next_delivery += count;
            totals_.deliveries += count;
            for (const SlabTicket& ticket : peer->to_send) {
                SlabRecord& slab_record = slab_records_[ticket.slab];
                totals_.queue.add(static_cast<std::uint64_t>(slab_record.waited.count()));
                if (slab_record.deliveries++ > 0) totals_.redelivered += slab_record.published.totals();
            }
        } else {
            // Nothing was sent: remove the holder that was recorded ahead of the ticket.
            for (const SlabTicket& ticket : peer->to_send) {
                ledger_.take_back(ticket, peer->ref);
                const SlabRecord& slab_record = slab_records_[ticket.slab];
                ready_.put_back(ticket.slab, kFirstReturnDelay, slab_record.leased_at - slab_record.waited);
                --peer->held;
            }
            peer->draining = peer->draining || outcome == SendOutcome::PeerGone;  // its connection is cut
            ++totals_.refused[words(outcome == SendOutcome::PeerGone ? Refusal::PeerIsGone : Refusal::TicketNotTaken)];
        }
        peer->to_send.clear();
    }
}

}  // namespace offramp
