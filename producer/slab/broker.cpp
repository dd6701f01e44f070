#include "producer/slab/broker.hpp"

#include <poll.h>

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "producer/slab/broker_peer.hpp"

namespace offramp {
namespace {

// So many messages are taken in one step before everyone else has a turn: a flood from one consumer must not starve the rest.
constexpr int kMessagesPerStep = 512;
constexpr std::chrono::nanoseconds kLeaseLookInterval = std::chrono::milliseconds(100);
// From a peer's first word to its answer; a place is not kept for one that never answers.
constexpr std::chrono::nanoseconds kHandshake = std::chrono::seconds(5);
constexpr std::size_t kDeparturesKept = 1000;
constexpr std::uint64_t kRefusalsALogLine = 1000;

const char* to_string(RefusalReason reason) {
    switch (reason) {
        case RefusalReason::Version: return "another version";
        case RefusalReason::Nonce: return "another run";
        case RefusalReason::User: return "another user";
        case RefusalReason::ForeignProcess: return "a foreign process";
        case RefusalReason::Full: return "no place left";
        case RefusalReason::Ended: return "the run has ended";
    }
    return "?";
}

}  // namespace

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
    grant_slabs();
    hand_out();
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

// --- from the egress ---

void Broker::take_published() {
    const SlabExchange::Taken taken = exchange_.take();
    for (const std::uint32_t slab : taken.abandoned) ledger_.abandon(slab);
    for (const PublishedSlab& published : taken.published) {
        const TraceRange range(TraceName::Publish, published.first_batch);
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
    if (grants_.size() < wanted) exchange_.note_shortage();
}

// --- from consumers: handshake and session (releases and delivery: broker_delivery.cpp) ---

void Broker::take_work_messages() {
    Inbound inbound;
    for (int taken = 0; taken < kMessagesPerStep && port_.try_receive_work(inbound); ++taken) {
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message) {
            count("work message: " + std::string(to_string(message.problem)));
            if (message.problem == ParseProblem::Version)
                refuse(inbound.peer, RefusalReason::Version,
                       "message version " + std::to_string(message.version) + ", this run speaks " +
                           std::to_string(kMessageVersion) + ": start consumers of the producer's own build");
            continue;
        }
        if (message.type == MessageType::Hello) {
            on_hello(inbound, message);
            continue;
        }
        const auto found = peers_.find(inbound.peer);
        if (found == peers_.end() || found->second->gone) {
            count("work message from nobody known");
            continue;
        }
        Peer& peer = *found->second;
        if (inbound.credentials.pid != peer.credentials.pid || inbound.credentials.uid != peer.credentials.uid) {
            count("work message in another's name");
            continue;
        }
        if (message.type == MessageType::Answer) {
            on_answer(peer, message.as<Answer>());
        } else if (message.type == MessageType::Credit && peer.admitted &&
                   message.as<Credit>().session == peer.ref.session) {
            peer.window = std::min(message.as<Credit>().window, kMaxTicketsPerMessage);
            peer.draining = peer.draining || peer.window == 0;
        } else if (message.type == MessageType::Goodbye && peer.admitted &&
                   message.as<Goodbye>().session == peer.ref.session) {
            on_goodbye(peer);
        } else {
            count("work message out of turn");
        }
    }
}

void Broker::on_hello(const Inbound& inbound, const ParsedMessage& message) {
    const auto hello = message.as<Hello>();
    if (hello.holding > message.count) {
        count("hello with more holdings than records");
        return;
    }
    const auto known = peers_.find(inbound.peer);
    if (known != peers_.end() && known->second->gone) {
        peers_.erase(known);   // it said goodbye a moment ago, and begins anew
        wait_fds_.clear();
    } else if (known != peers_.end()) {
        // Its first word came twice: answer as before.
        const Peer& peer = *known->second;
        if (peer.admitted)
            port_.send(peer.routing_id, encode(Welcome{peer.ref.session, peer.ref.slot, ledger_.epoch()}));
        else
            port_.send(peer.routing_id, encode(Challenge{peer.secret}));
        return;
    }
    if (hello.run_nonce != options_.run_nonce)
        return refuse(inbound.peer, RefusalReason::Nonce, "this is another run: read its endpoint file again");
    const PeerCredentials& who = inbound.credentials;
    if (who.pid == 0)
        return refuse(inbound.peer, RefusalReason::ForeignProcess,
                      "the process is in another pid namespace and cannot be watched: share the pid namespace");
    if (std::find(options_.allowed_uids.begin(), options_.allowed_uids.end(), who.uid) == options_.allowed_uids.end())
        return refuse(inbound.peer, RefusalReason::User,
                      "user " + std::to_string(who.uid) + " may not read this run: start the run with --consumer-user");
    if (ended_ || aborting_ || farewell_until_)
        return refuse(inbound.peer, RefusalReason::Ended, "the run has ended");
    if (peers_.size() >= cells_.size())
        return refuse(inbound.peer, RefusalReason::Full,
                      "the run has its " + std::to_string(cells_.size()) + " consumers already");
    std::optional<WatchedPeer> watched;
    try {
        watched = watch_.open(who.pid);
    } catch (const SystemError& problem) {
        return refuse(inbound.peer, RefusalReason::Full, std::string("it cannot be watched: ") + problem.what());
    }
    if (!watched) {
        count("peer died while it was being let in");
        return;
    }
    auto peer = std::make_unique<Peer>();
    peer->routing_id = inbound.peer;
    peer->credentials = who;
    peer->since = clock_.now();
    peer->watched = std::move(*watched);
    peer->secret = (std::uint64_t{entropy_()} << 32) | entropy_();
    peer->window = std::min(hello.window, kMaxTicketsPerMessage);
    port_.send(peer->routing_id, encode(Challenge{peer->secret}));
    peers_.emplace(inbound.peer, std::move(peer));
    wait_fds_.clear();
}

void Broker::on_answer(Peer& peer, const Answer& answer) {
    if (peer.admitted) return;
    if (answer.secret != peer.secret || readable_now(peer.watched.died.get())) {
        count("challenge not answered");
        peer.gone = true;
        return;
    }
    const auto ref = ledger_.admit(static_cast<std::uint64_t>(peer.credentials.pid), peer.watched.start_time,
                                   peer.credentials.uid);
    if (!ref) {
        refuse(peer.routing_id, RefusalReason::Full, "the run has its full number of consumers already");
        peer.gone = true;
        return;
    }
    peer.ref = *ref;
    peer.admitted = true;
    failpoint("broker.admitted");
    peer.alive_at = clock_.now();
    port_.send(peer.routing_id, encode(Welcome{ref->session, ref->slot, ledger_.epoch()}));
    spdlog::info("consumer {} (pid {}) is in", ref->session, peer.credentials.pid);
    if (farewell_until_) send_drain(peer, DrainReason::RunEnded);
}

void Broker::refuse(const std::string& peer, RefusalReason reason, const std::string& text) {
    // A flood of refusals must not become a flood of lines.
    const std::uint64_t times = count(std::string("refused: ") + to_string(reason));
    if (times % kRefusalsALogLine == 1) spdlog::warn("a consumer was refused ({} times so far): {}", times, text);
    Refused refused{static_cast<std::uint32_t>(reason), 0, {}};
    put_text(refused.text, text);
    port_.send(peer, encode(refused));
}

void Broker::on_goodbye(Peer& peer) {
    memory_.look_at_cells();   // for its last figures
    note_departure(peer, "goodbye");
    // Tickets that crossed its goodbye: it never saw them, or will not begin.
    take_holds_back(peer, 0, "goodbye");
    peer.gone = true;
}

void Broker::take_holds_back(Peer& peer, std::uint64_t work, const char* how) {
    for (const SlabLedger::Revoked& hold : ledger_.revoke(peer.ref, work)) {
        note_failed(hold.slab, hold.attempt, peer, how, hold.charged);
        if (hold.charged)
            fillings_[hold.slab].killed_pids.push_back(static_cast<std::uint64_t>(peer.credentials.pid));
        if (hold.ready_again) make_ready(hold.slab, {}, false);
    }
}

double Broker::busy_seconds(const Peer& peer) const {
    const ConsumerCell& cell = cells_[peer.ref.slot];
    // A cell of another session is a leftover of whoever had the place before.
    return load_word(cell.session) == peer.ref.session ? static_cast<double>(load_word(cell.busy_ns)) / 1e9 : 0;
}

void Broker::note_departure(const Peer& peer, const char* how) {
    if (books_.consumers.size() >= kDeparturesKept) books_.consumers.erase(books_.consumers.begin());
    books_.consumers.push_back(
        {.pid = static_cast<std::uint64_t>(peer.credentials.pid),
         .session = peer.ref.session,
         .slot = peer.ref.slot,
         .completed = peer.completed,
         .busy_seconds = busy_seconds(peer),
         .end = how});
}

// --- liveness ---

void Broker::bury_the_dead() {
    if (peers_.empty()) return;
    const std::vector<int>& fds = wait_fds();
    pidfds_.clear();
    for (std::size_t i = 1; i < fds.size(); ++i) pidfds_.push_back({fds[i], POLLIN, 0});
    if (::poll(pidfds_.data(), pidfds_.size(), 0) <= 0) return;
    std::vector<std::string> dead;
    for (std::size_t i = 0; i < pidfds_.size(); ++i)
        if ((pidfds_[i].revents & (POLLIN | POLLHUP)) != 0) dead.push_back(wait_ids_[i]);
    // What the dead said last may have come in since: a release or a goodbye still counts.
    take_release_messages();
    take_work_messages();
    for (const std::string& id : dead) {
        const auto found = peers_.find(id);
        if (found != peers_.end() && !found->second->gone) bury(*found->second);
    }
}

void Broker::bury(Peer& peer) {
    peer.gone = true;
    if (!peer.admitted) return;
    memory_.look_at_cells();   // the dead writes no more
    const ConsumerCell& cell = cells_[peer.ref.slot];
    const std::uint64_t work = load_word(cell.session) == peer.ref.session ? load_word(cell.work) : 0;
    note_departure(peer, "died");
    spdlog::warn("consumer {} (pid {}) died holding {} slabs{}", peer.ref.session, peer.credentials.pid, peer.held,
                 work != 0 ? ", one of them in work" : "");
    take_holds_back(peer, work, "died");
}

void Broker::look_at_leases() {
    const TimePoint now = clock_.now();
    if (now < next_lease_look_) return;
    next_lease_look_ = now + kLeaseLookInterval;
    memory_.look_at_cells();
    watch_shortage(now);
    for (auto& [id, peer] : peers_) {
        if (!peer->admitted && now - peer->since > kHandshake) {
            count("challenge not answered");
            peer->gone = true;
        }
        if (!peer->admitted || peer->gone) continue;
        const ConsumerCell& cell = cells_[peer->ref.slot];
        const std::uint64_t work = load_word(cell.work);
        const std::uint64_t progress = load_word(cell.progress);
        if (work != peer->seen_work || progress != peer->seen_progress || peer->held == 0) {
            peer->seen_work = work;
            peer->seen_progress = progress;
            peer->alive_at = now;
            peer->hung = false;
        }
        if (peer->hung || now - peer->alive_at < options_.lease) continue;
        peer->hung = true;
        spdlog::warn("consumer {} (pid {}) made no progress for {:.1f} s: its slabs go to others as well",
                     peer->ref.session, peer->credentials.pid, std::chrono::duration<double>(options_.lease).count());
        on_overdue(*peer);
        for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
            const SlabWord word = ledger_.word(slab);
            if (word.state != SlabState::Leased) continue;
            const auto holders = ledger_.holders(slab);
            const bool current = std::any_of(holders.begin(), holders.end(), [&](const HolderWord& holder) {
                return holder.session == peer->ref.session && holder.attempt == word.attempt;
            });
            if (!current) continue;
            ledger_.expire(slab);
            note_failed(slab, word.attempt, *peer, "lease ran out", false);
            make_ready(slab, {}, false);
        }
    }
}

// --- the end ---

void Broker::see_to_the_end() {
    if (ended_ || !(finished_ || aborting_)) return;
    for (const std::uint32_t slab : exchange_.withdraw_grants()) ledger_.abandon(slab);
    const auto counts = ledger_.counts();
    const auto of = [&](SlabState state) { return counts[static_cast<std::size_t>(state)]; };
    // What is given up must be on the disk, or have failed to get there.
    const bool nothing_in_flight = of(SlabState::Filling) == 0 && of(SlabState::Ready) == 0 &&
                                   of(SlabState::Leased) == 0 && of(SlabState::Quarantined) == 0;
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
