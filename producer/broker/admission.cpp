#include "producer/broker/admission.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/remedy.hpp"
#include "producer/broker/refusals.hpp"

namespace offramp {
namespace {

// Messages taken in one step before other work: a flood from one consumer must not starve the rest.
constexpr int kMessagesPerStep = 512;
constexpr std::uint64_t kRefusalsALogLine = 1000;
constexpr std::chrono::milliseconds kLookAtUnwatchedEvery{100};

// The sender left before its Welcome and has read nothing.
bool ends_unheard(const ParsedMessage& message) {
    return message.type == MessageType::Disconnect && message.as<Disconnect>().session == 0;
}

}  // namespace

void Admission::take_messages() {
    look_at_unwatched();
    Inbound inbound;
    for (int taken = 0; taken < kMessagesPerStep && port_.try_receive_work(inbound); ++taken) {
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message) {
            ++refused_[words(MessageChannel::Work, message.problem)];
            if (message.problem == ParseProblem::Version)
                refuse(inbound.peer, RefusalReason::Version,
                       "message version " + std::to_string(message.version) + ", this run uses " +
                           std::to_string(kMessageVersion) + ": start consumers of the producer's own build");
            continue;
        }
        if (message.type == MessageType::Hello) {
            on_hello(inbound, message);
            continue;
        }
        if (message.run != options_.run_nonce) {
            ++refused_[words(Refusal::WorkOfAnotherRun)];
            continue;
        }
        Peer* const known = peers_.find(inbound.peer);
        if (known == nullptr || known->gone) {
            if (!ends_unheard(message)) ++refused_[words(Refusal::UnknownConsumer)];  // it was refused or has left
            continue;
        }
        Peer& peer = *known;
        if (inbound.credentials.pid != peer.credentials.pid || inbound.credentials.uid != peer.credentials.uid) {
            ++refused_[words(Refusal::WorkForOtherConsumer)];
            continue;
        }
        if (message.type == MessageType::Answer) {
            on_answer(peer, message.as<Answer>());
        } else if (message.type == MessageType::Credit && peer.admitted &&
                   message.as<Credit>().session == peer.ref.session) {
            peer.window = std::min(message.as<Credit>().window, kMaxTicketsPerMessage);
            peer.draining = peer.draining || peer.window == 0;
        } else if (ends_unheard(message) || (message.type == MessageType::Disconnect && peer.admitted &&
                                             message.as<Disconnect>().session == peer.ref.session)) {
            on_disconnect(peer);
        } else {
            ++refused_[words(Refusal::OutOfTurn)];
        }
    }
}

void Admission::keep_unwatched(const Inbound& inbound, const SystemError& problem) {
    if (!std::exchange(reported_unwatched_, true)) spdlog::warn("a consumer waits for admission: {}", problem.what());
    if (unwatched_.empty()) look_at_unwatched_ = clock_.now() + kLookAtUnwatchedEvery;
    unwatched_.push_back(inbound);
}

void Admission::look_at_unwatched() {
    if (unwatched_.empty() || clock_.now() < look_at_unwatched_) return;
    for (const Inbound& inbound : std::exchange(unwatched_, {})) on_hello(inbound, parse_message(inbound.bytes));
}

void Admission::on_hello(const Inbound& inbound, const ParsedMessage& message) {
    const auto hello = message.as<Hello>();
    if (hello.holding > message.count) {
        ++refused_[words(Refusal::MoreHoldingsThanRecords)];
        return;
    }
    const Peer* const known = peers_.find(inbound.peer);
    if (known != nullptr && known->gone) {
        peers_.remove(inbound.peer);  // it disconnected just now and connects again
    } else if (known != nullptr) {
        // A repeated Hello: answer as before.
        const Peer& peer = *known;
        if (peer.admitted)
            port_.send(peer.routing_id,
                       encode(options_.run_nonce, Welcome{peer.ref.session, peer.ref.consumer_index, ledger_.epoch()}));
        else
            port_.send(peer.routing_id, encode(options_.run_nonce, Challenge{peer.secret}));
        return;
    }
    if (message.run != options_.run_nonce)
        return refuse(inbound.peer, RefusalReason::Nonce, "this is another run: read its endpoint file again");
    const PeerCredentials& who = inbound.credentials;
    if (who.pid == 0)
        return refuse(inbound.peer, RefusalReason::ForeignProcess,
                      "the process is in another pid namespace and cannot be watched: share the pid namespace");
    if (std::find(options_.allowed_uids.begin(), options_.allowed_uids.end(), who.uid) == options_.allowed_uids.end())
        return refuse(
            inbound.peer, RefusalReason::User,
            "user " + std::to_string(who.uid) + " may not read this run. " + remedy(Remedy::OpenToAnotherUser));
    // A returning consumer was admitted before and is known by its process.
    if (hello.previous_session == 0 && hello.work != options_.work)
        return refuse(inbound.peer, RefusalReason::Work,
                      "process " + std::to_string(who.pid) +
                          " has other settings than the run's consumers: its results would differ, or go elsewhere");
    if (run_end_.ended() || run_end_.closing()) return refuse(inbound.peer, RefusalReason::Ended, "the run has ended");
    if (peers_.present() >= peers_.capacity())
        return refuse(inbound.peer, RefusalReason::Full,
                      "the run already has its maximum number of consumers, " + std::to_string(peers_.capacity()));
    std::optional<WatchedProcess> watched;
    try {
        watched = watch_.open(who.pid);
    } catch (const SystemError& problem) {
        const bool is_scarce = problem.errno_value() == EMFILE || problem.errno_value() == ENFILE;
        if (is_scarce && unwatched_.size() < peers_.capacity()) return keep_unwatched(inbound, problem);
        return refuse(inbound.peer, RefusalReason::Full, std::string("it cannot be watched: ") + problem.what());
    }
    if (!watched) {
        ++refused_[words(Refusal::DiedMeanwhile)];
        return;
    }
    auto peer = std::make_unique<Peer>();
    peer->routing_id = inbound.peer;
    peer->credentials = who;
    peer->since = clock_.now();
    peer->watched = std::move(*watched);
    peer->secret = (std::uint64_t{entropy_()} << 32) | entropy_();
    peer->window = std::min(hello.window, kMaxTicketsPerMessage);
    peer->token = hello.token;
    peer->previous_session = hello.previous_session;
    peer->kept = message.records_of<Hello>();
    port_.send(peer->routing_id, encode(options_.run_nonce, Challenge{peer->secret}));
    peers_.add(std::move(peer));
}

void Admission::on_answer(Peer& peer, const Answer& answer) {
    if (peer.admitted) return;
    if (answer.secret != peer.secret || has_input(peer.watched.died.get())) {
        ++refused_[words(Refusal::ChallengeNotAnswered)];
        peer.gone = true;
        return;
    }
    if (continued_.rejoin(peer)) return;
    if (peer.previous_session != 0) {
        ++refused_[words(Refusal::ForeignSession)];
        refuse(peer.routing_id, RefusalReason::Nonce,
               "session " + std::to_string(admission_of(peer.previous_session)) +
                   " belongs to another process: start the consumer again");
        peer.gone = true;
        return;
    }
    const auto ref = ledger_.admit(static_cast<std::uint64_t>(peer.credentials.pid), peer.watched.start_time,
                                   peer.credentials.uid, peer.token);
    if (!ref) {
        refuse(peer.routing_id, RefusalReason::Full, "the run already has its maximum number of consumers");
        peer.gone = true;
        return;
    }
    peer.ref = *ref;
    peer.admitted = true;
    failpoint("broker.admitted");
    peer.alive_at = clock_.now();
    port_.send(peer.routing_id,
               encode(options_.run_nonce, Welcome{ref->session, ref->consumer_index, ledger_.epoch()}));
    spdlog::info("{}consumer {} (pid {}) joined", in_group(options_), admission_of(ref->session), peer.credentials.pid);
    if (run_end_.begun()) run_end_.send_drain(peer, DrainReason::RunEnded);
}

void Admission::refuse(const std::string& peer, RefusalReason reason, const std::string& text) {
    // Limits log lines during a flood of refusals.
    const std::uint64_t times = ++refused_[words(reason)];
    if (times % kRefusalsALogLine == 1) spdlog::warn("a consumer was refused ({} times so far): {}", times, text);
    Refused refused{static_cast<std::uint32_t>(reason), 0, {}};
    put_text(refused.text, text);
    port_.send(peer, encode(options_.run_nonce, refused));
}

void Admission::on_disconnect(Peer& peer) {
    peer.gone = true;
    if (!peer.admitted) return;
    memory_.refresh_heartbeats();  // for its last stats
    peers_.note_departure(peer, "disconnected");
    // Tickets that crossed its Disconnect: it never saw them, or will not begin them.
    returns_.take_back(peer, 0, "disconnected");
}

void ContinuedRun::adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters) {
    expect(options_.progress != nullptr, "a continued run has a progress record");
    const ProgressRecord totals = options_.progress->totals();
    totals_.published = totals.published;
    totals_.completed = totals.completed;
    totals_.dead_lettered = totals.dead_letters;
    // When a slab was leased is unknown: for this producer it is now.
    for (SlabRecord& slab_record : slab_records_) slab_record.leased_at = clock_.now();
    for (const PublishedSlab& slab : in_flight) {
        restore_slab_record(slab);
        if (ledger_.word(slab.slab).state == SlabState::Ready) ready_.append(slab.slab);
    }
    for (const PublishedSlab& slab : dead_letters) restore_slab_record(slab);
}

void ContinuedRun::restore_slab_record(const PublishedSlab& slab) {
    slab_records_[slab.slab].published = slab;
    slab_records_[slab.slab].deliveries = ledger_.word(slab.slab).attempt;
}

void ContinuedRun::expect_consumers_back() {
    for (const SlabLedger::Admitted& previous : ledger_.admitted()) expect_back(previous);
}

void ContinuedRun::expect_back(const SlabLedger::Admitted& previous) {
    auto peer = std::make_unique<Peer>();
    peer->routing_id = "session " + std::to_string(admission_of(previous.ref.session)) + " of the previous producer";
    peer->credentials = {.pid = static_cast<pid_t>(previous.pid), .uid = static_cast<uid_t>(previous.uid)};
    peer->since = peer->alive_at = clock_.now();
    peer->admitted = peer->draining = peer->away = true;
    peer->ref = previous.ref;
    peer->token = previous.token;
    auto watched = watch_.open(peer->credentials.pid);
    if (!watched || watched->start_time != previous.start_time || has_input(watched->died.get())) {
        // Time and cause of death are unknown: no failure is counted.
        peers_.note_departure(*peer, "died");
        returns_.take_back(*peer, 0, "died");
        return;
    }
    peer->watched = std::move(*watched);
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab)
        peer->held += ledger_.holds(slab, peer->ref) ? 1U : 0U;
    peers_.add(std::move(peer));
}

bool ContinuedRun::rejoin(Peer& peer) {
    Peer* const previous = peers_.find_away(peer.token);
    if (previous == nullptr || previous->credentials.pid != peer.credentials.pid ||
        previous->credentials.uid != peer.credentials.uid || previous->watched.start_time != peer.watched.start_time ||
        (peer.previous_session != 0 && peer.previous_session != previous->ref.session))
        return false;
    previous->gone = true;
    peer.ref = previous->ref;
    peer.admitted = true;
    peer.alive_at = clock_.now();
    failpoint("broker.rejoin");
    keep_only(peer, std::exchange(peer.kept, {}));
    failpoint("broker.rejoined");
    port_.send(peer.routing_id,
               encode(options_.run_nonce, Welcome{peer.ref.session, peer.ref.consumer_index, ledger_.epoch()}));
    spdlog::info("{}consumer {} (pid {}) is back, holding {} slabs", in_group(options_), admission_of(peer.ref.session),
                 peer.credentials.pid, peer.held);
    if (run_end_.begun()) run_end_.send_drain(peer, run_end_.aborting() ? DrainReason::Aborted : DrainReason::RunEnded);
    return true;
}

// A delivery neither held nor released was lost with the previous producer's socket.
void ContinuedRun::keep_only(Peer& peer, std::span<const SlabTicket> kept) {
    peer.held = 0;
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
        const SlabWord before = ledger_.word(slab);
        for (const HolderWord& holder : ledger_.holders(slab)) {
            if (holder.session != peer.ref.session) continue;
            const SlabTicket ticket{
                .epoch = ledger_.epoch(), .slab = slab, .generation = before.generation, .attempt = holder.attempt};
            const bool has_it = std::any_of(kept.begin(), kept.end(), [&](const SlabTicket& one) {
                return one.slab == slab && one.generation == ticket.generation && one.attempt == ticket.attempt;
            });
            if (has_it) {
                ++peer.held;
                continue;
            }
            ledger_.take_back(ticket, peer.ref);
            slab_records_.note_failed(slab, ticket.attempt, peer, "never arrived: its producer died", false);
            if (before.state == SlabState::Leased && ledger_.word(slab).state == SlabState::Ready)
                ready_.put_ahead(slab);
        }
    }
}

}  // namespace offramp
