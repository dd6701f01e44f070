#include "producer/broker/recovery.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/readiness.hpp"

namespace offramp {

void Recovery::adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> given_up) {
    expect(state_.options.progress != nullptr, "whoever takes over has an account to go on with");
    const ProgressLog::Totals totals = state_.options.progress->totals();
    state_.books.published = totals.published;
    state_.books.completed = totals.completed;
    state_.books.quarantined = totals.given_up;
    // Since when a slab has been held, nobody knows any more: for this producer, since now.
    for (SlabFillings::Filling& filling : state_.fillings) filling.leased_at = state_.clock.now();
    for (const PublishedSlab& slab : in_flight) {
        adopt_filling(slab);
        if (state_.ledger.word(slab.slab).state == SlabState::Ready) state_.ready.append(slab.slab);
    }
    for (const PublishedSlab& slab : given_up) adopt_filling(slab);
}

void Recovery::adopt_filling(const PublishedSlab& slab) {
    state_.fillings[slab.slab].published = slab;
    state_.fillings[slab.slab].deliveries = state_.ledger.word(slab.slab).attempt;
}

void Recovery::expect_consumers_back() {
    for (const SlabLedger::Admitted& former : state_.ledger.admitted()) expect_back(former);
}

void Recovery::expect_back(const SlabLedger::Admitted& former) {
    auto peer = std::make_unique<Peer>();
    peer->routing_id = "session " + std::to_string(former.ref.session) + " of the former producer";
    peer->credentials = {.pid = static_cast<pid_t>(former.pid), .uid = static_cast<uid_t>(former.uid)};
    peer->since = peer->alive_at = state_.clock.now();
    peer->admitted = peer->draining = peer->away = true;
    peer->ref = former.ref;
    auto watched = state_.watch.open(peer->credentials.pid);
    if (!watched || watched->start_time != former.start_time || has_input(watched->died.get())) {
        // Nobody saw when and of what it died: no slab is charged.
        state_.peers.note_departure(*peer, "died");
        state_.take_holds_back(*peer, 0, "died");
        return;
    }
    peer->watched = std::move(*watched);
    for (std::uint32_t slab = 0; slab < state_.ledger.slab_count(); ++slab)
        peer->held += state_.ledger.holds(slab, peer->ref) ? 1U : 0U;
    state_.peers.add(std::move(peer));
}

bool Recovery::rejoin(Peer& peer) {
    Peer* const former = state_.peers.find_session(peer.former_session);
    if (former == nullptr || !former->away || former->credentials.pid != peer.credentials.pid ||
        former->credentials.uid != peer.credentials.uid || former->watched.start_time != peer.watched.start_time)
        return false;
    former->gone = true;
    peer.ref = former->ref;
    peer.admitted = true;
    peer.alive_at = state_.clock.now();
    failpoint("broker.rejoin");
    keep_only(peer, std::exchange(peer.kept, {}));
    failpoint("broker.rejoined");
    state_.port.send(peer.routing_id, encode(Welcome{peer.ref.session, peer.ref.slot, state_.ledger.epoch()}));
    spdlog::info("consumer {} (pid {}) is back, holding {} slabs", peer.ref.session, peer.credentials.pid, peer.held);
    if (farewell_.begun())
        farewell_.send_drain(peer, farewell_.aborting() ? DrainReason::Aborted : DrainReason::RunEnded);
    return true;
}

// A delivery that it neither holds nor has released was lost on its way with the former producer's socket.
void Recovery::keep_only(Peer& peer, std::span<const SlabTicket> kept) {
    peer.held = 0;
    for (std::uint32_t slab = 0; slab < state_.ledger.slab_count(); ++slab) {
        const SlabWord before = state_.ledger.word(slab);
        for (const HolderWord& hold : state_.ledger.holders(slab)) {
            if (hold.session != peer.ref.session) continue;
            const SlabTicket ticket{
                .epoch = state_.ledger.epoch(), .slab = slab, .generation = before.generation, .attempt = hold.attempt};
            const bool has_it = std::any_of(kept.begin(), kept.end(), [&](const SlabTicket& one) {
                return one.slab == slab && one.generation == ticket.generation && one.attempt == ticket.attempt;
            });
            if (has_it) {
                ++peer.held;
                continue;
            }
            state_.ledger.take_back(ticket, peer.ref);
            state_.fillings.note_failed(slab, ticket.attempt, peer, "never arrived: its producer died", false);
            if (before.state == SlabState::Leased && state_.ledger.word(slab).state == SlabState::Ready)
                state_.ready.put_ahead(slab);
        }
    }
}

void Recovery::forget_former_self(const Peer& peer) {
    for (auto& [id, former] : state_.peers) {
        if (!former->away || former->gone || former->credentials.pid != peer.credentials.pid) continue;
        state_.take_holds_back(*former, 0, "began anew");
        former->gone = true;
    }
}

}  // namespace offramp
