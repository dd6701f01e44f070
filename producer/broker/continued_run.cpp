#include "producer/broker/continued_run.hpp"

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
    spdlog::info("consumer {} (pid {}) is back, holding {} slabs", admission_of(peer.ref.session), peer.credentials.pid,
                 peer.held);
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
