#include "producer/broker/run_end.hpp"

#include <cstddef>
#include <cstdint>

#include "common/base/log.hpp"

namespace offramp {

void RunEnd::abort() {
    aborting_ = true;
    for (auto& [id, peer] : peers_) send_drain(*peer, DrainReason::Aborted);
}

void RunEnd::finish(bool disk_is_empty) {
    if (ended_ || !approaching()) return;
    const auto of = [&](SlabState state) { return ledger_.count(state); };
    // Dead letters must be on the disk, or have failed to get there.
    const bool nothing_in_flight = of(SlabState::Filling) == 0 && of(SlabState::Ready) == 0 &&
                                   of(SlabState::Leased) == 0 && of(SlabState::DeadLettered) == 0 && disk_is_empty;
    if (!nothing_in_flight && !aborting_ && !hurried_) return;
    if (!until_) {
        until_ = clock_.now() + options_.disconnect_timeout;
        for (auto& [id, peer] : peers_) send_drain(*peer, aborting_ ? DrainReason::Aborted : DrainReason::RunEnded);
    }
    // Slabs still being copied at an abort are published or abandoned soon: they belong in the totals.
    const bool all_done = peers_.empty() && of(SlabState::Filling) == 0 && of(SlabState::DeadLettered) == 0;
    ended_ = all_done || clock_.now() >= *until_;
    if (ended_ && !peers_.empty())
        spdlog::warn("{}{} consumers did not disconnect in time", in_group(options_), peers_.size());
}

void RunEnd::leave_out(std::chrono::nanoseconds pause) {
    if (until_) *until_ += pause;
}

void RunEnd::send_drain(Peer& peer, DrainReason reason) const {
    peer.draining = true;
    if (peer.admitted)
        port_.send(peer.routing_id,
                   encode(options_.run_nonce, Drain{peer.ref.session, static_cast<std::uint32_t>(reason), 0}));
}

}  // namespace offramp
