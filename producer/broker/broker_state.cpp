#include "producer/broker/broker_state.hpp"

#include <cstddef>
#include <utility>

namespace offramp {

BrokerState::BrokerState(SlabLedger& its_ledger, BrokerPort& its_port, SlabExchange& its_exchange, PeerWatch& its_watch,
                         const Clock& its_clock, std::span<const HeartbeatRecord> heartbeats, SlabMemory its_memory,
                         BrokerOptions its_options)
    : ledger(its_ledger),
      port(its_port),
      exchange(its_exchange),
      watch(its_watch),
      clock(its_clock),
      memory(std::move(its_memory)),
      options(std::move(its_options)),
      peers(heartbeats),
      slab_records(its_ledger.slab_count(), its_clock),
      ready(its_ledger, its_clock) {}

void BrokerState::count_step(CountedStep step, const PublishedSlab& slab) {
    if (options.progress != nullptr) options.progress->count(step, slab, ledger.word(slab.slab).generation);
}

void BrokerState::take_slabs_back(Peer& peer, std::uint64_t work, const char* how) {
    for (const SlabLedger::Revoked& held : ledger.revoke(peer.ref, work)) {
        slab_records.note_failed(held.slab, held.attempt, peer, how, held.counted);
        if (held.counted) {
            ++totals.slab_failures;
            slab_records[held.slab].killed_pids.push_back(static_cast<std::uint64_t>(peer.credentials.pid));
        }
        if (held.ready_again) ready.put_ahead(held.slab);
    }
}

bool BrokerState::egress_is_short() const { return exchange.waiting() && ledger.count(SlabState::Free) == 0; }

}  // namespace offramp
