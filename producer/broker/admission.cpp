#include "producer/broker/admission.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/readiness.hpp"
#include "common/base/remedy.hpp"

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
    for (int taken = 0; taken < kMessagesPerStep && state_.port.try_receive_work(inbound); ++taken) {
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message) {
            state_.count(MessageChannel::Work, message.problem);
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
        if (message.run != state_.options.run_nonce) {
            state_.count(Refusal::WorkOfAnotherRun);
            continue;
        }
        Peer* const known = state_.peers.find(inbound.peer);
        if (known == nullptr || known->gone) {
            if (!ends_unheard(message)) state_.count(Refusal::UnknownConsumer);  // it was refused or has left
            continue;
        }
        Peer& peer = *known;
        if (inbound.credentials.pid != peer.credentials.pid || inbound.credentials.uid != peer.credentials.uid) {
            state_.count(Refusal::WorkForOtherConsumer);
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
            state_.count(Refusal::OutOfTurn);
        }
    }
}

void Admission::keep_unwatched(const Inbound& inbound, const SystemError& problem) {
    if (!std::exchange(reported_unwatched_, true)) spdlog::warn("a consumer waits for admission: {}", problem.what());
    if (unwatched_.empty()) look_at_unwatched_ = state_.clock.now() + kLookAtUnwatchedEvery;
    unwatched_.push_back(inbound);
}

void Admission::look_at_unwatched() {
    if (unwatched_.empty() || state_.clock.now() < look_at_unwatched_) return;
    for (const Inbound& inbound : std::exchange(unwatched_, {})) on_hello(inbound, parse_message(inbound.bytes));
}

void Admission::on_hello(const Inbound& inbound, const ParsedMessage& message) {
    const auto hello = message.as<Hello>();
    if (hello.holding > message.count) {
        state_.count(Refusal::MoreHoldingsThanRecords);
        return;
    }
    const Peer* const known = state_.peers.find(inbound.peer);
    if (known != nullptr && known->gone) {
        state_.peers.remove(inbound.peer);  // it disconnected just now and connects again
    } else if (known != nullptr) {
        // A repeated Hello: answer as before.
        const Peer& peer = *known;
        if (peer.admitted)
            state_.port.send(peer.routing_id,
                             state_.message(Welcome{peer.ref.session, peer.ref.consumer_index, state_.ledger.epoch()}));
        else
            state_.port.send(peer.routing_id, state_.message(Challenge{peer.secret}));
        return;
    }
    if (message.run != state_.options.run_nonce)
        return refuse(inbound.peer, RefusalReason::Nonce, "this is another run: read its endpoint file again");
    const PeerCredentials& who = inbound.credentials;
    if (who.pid == 0)
        return refuse(inbound.peer, RefusalReason::ForeignProcess,
                      "the process is in another pid namespace and cannot be watched: share the pid namespace");
    if (std::find(state_.options.allowed_uids.begin(), state_.options.allowed_uids.end(), who.uid) ==
        state_.options.allowed_uids.end())
        return refuse(
            inbound.peer, RefusalReason::User,
            "user " + std::to_string(who.uid) + " may not read this run. " + remedy(Remedy::OpenToAnotherUser));
    // A returning consumer was admitted before and is known by its process.
    if (hello.previous_session == 0 && hello.work != state_.options.work)
        return refuse(inbound.peer, RefusalReason::Work,
                      "process " + std::to_string(who.pid) +
                          " has other settings than the run's consumers: its results would differ, or go elsewhere");
    if (run_end_.ended() || run_end_.closing()) return refuse(inbound.peer, RefusalReason::Ended, "the run has ended");
    if (state_.peers.present() >= state_.peers.capacity())
        return refuse(
            inbound.peer, RefusalReason::Full,
            "the run already has its maximum number of consumers, " + std::to_string(state_.peers.capacity()));
    std::optional<WatchedProcess> watched;
    try {
        watched = state_.watch.open(who.pid);
    } catch (const SystemError& problem) {
        const bool is_scarce = problem.errno_value() == EMFILE || problem.errno_value() == ENFILE;
        if (is_scarce && unwatched_.size() < state_.peers.capacity()) return keep_unwatched(inbound, problem);
        return refuse(inbound.peer, RefusalReason::Full, std::string("it cannot be watched: ") + problem.what());
    }
    if (!watched) {
        state_.count(Refusal::DiedMeanwhile);
        return;
    }
    auto peer = std::make_unique<Peer>();
    peer->routing_id = inbound.peer;
    peer->credentials = who;
    peer->since = state_.clock.now();
    peer->watched = std::move(*watched);
    peer->secret = (std::uint64_t{entropy_()} << 32) | entropy_();
    peer->window = std::min(hello.window, kMaxTicketsPerMessage);
    peer->token = hello.token;
    peer->previous_session = hello.previous_session;
    peer->kept = message.records_of<Hello>();
    state_.port.send(peer->routing_id, state_.message(Challenge{peer->secret}));
    state_.peers.add(std::move(peer));
}

void Admission::on_answer(Peer& peer, const Answer& answer) {
    if (peer.admitted) return;
    if (answer.secret != peer.secret || has_input(peer.watched.died.get())) {
        state_.count(Refusal::ChallengeNotAnswered);
        peer.gone = true;
        return;
    }
    if (continued_.rejoin(peer)) return;
    if (peer.previous_session != 0) {
        state_.count(Refusal::ForeignSession);
        refuse(peer.routing_id, RefusalReason::Nonce,
               "session " + std::to_string(admission_of(peer.previous_session)) +
                   " belongs to another process: start the consumer again");
        peer.gone = true;
        return;
    }
    const auto ref = state_.ledger.admit(static_cast<std::uint64_t>(peer.credentials.pid), peer.watched.start_time,
                                         peer.credentials.uid, peer.token);
    if (!ref) {
        refuse(peer.routing_id, RefusalReason::Full, "the run already has its maximum number of consumers");
        peer.gone = true;
        return;
    }
    peer.ref = *ref;
    peer.admitted = true;
    failpoint("broker.admitted");
    peer.alive_at = state_.clock.now();
    state_.port.send(peer.routing_id,
                     state_.message(Welcome{ref->session, ref->consumer_index, state_.ledger.epoch()}));
    spdlog::info("consumer {} (pid {}) joined", admission_of(ref->session), peer.credentials.pid);
    if (run_end_.begun()) run_end_.send_drain(peer, DrainReason::RunEnded);
}

void Admission::refuse(const std::string& peer, RefusalReason reason, const std::string& text) {
    // Limits log lines during a flood of refusals.
    const std::uint64_t times = state_.count(reason);
    if (times % kRefusalsALogLine == 1) spdlog::warn("a consumer was refused ({} times so far): {}", times, text);
    Refused refused{static_cast<std::uint32_t>(reason), 0, {}};
    put_text(refused.text, text);
    state_.port.send(peer, state_.message(refused));
}

void Admission::on_disconnect(Peer& peer) {
    peer.gone = true;
    if (!peer.admitted) return;
    state_.memory.refresh_heartbeats();  // for its last stats
    state_.peers.note_departure(peer, "disconnected");
    // Tickets that crossed its Disconnect: it never saw them, or will not begin them.
    state_.take_slabs_back(peer, 0, "disconnected");
}

}  // namespace offramp
