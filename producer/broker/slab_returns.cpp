#include "producer/broker/slab_returns.hpp"

#include <cstdint>

namespace offramp {

void SlabReturns::take_back(Peer& peer, std::uint64_t work, const char* how) {
    for (const SlabLedger::Revoked& held : ledger_.revoke(peer.ref, work)) {
        slab_records_.note_failed(held.slab, held.attempt, peer, how, held.counted);
        if (held.counted) {
            ++totals_.slab_failures;
            slab_records_[held.slab].killed_pids.push_back(static_cast<std::uint64_t>(peer.credentials.pid));
        }
        if (held.ready_again) ready_.put_ahead(held.slab);
    }
}

}  // namespace offramp
