#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/slab_ticket.hpp"
#include "common/wire/slab_totals.hpp"
#include "producer/broker/peer_watch.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// The broker's record of one connection, from its Hello to its Disconnect or death. Thread: the broker's.
struct Peer {
    std::string routing_id;
    PeerCredentials credentials;
    WatchedProcess watched;
    std::uint64_t secret = 0;
    TimePoint since{};      // its Hello
    bool admitted = false;  // the secret was answered: pidfd and connection are the same process
    bool draining = false;
    bool gone = false;                   // removed at the end of the step
    std::uint64_t token = 0;             // of its session, which continues under it
    std::uint64_t previous_session = 0;  // it comes from a previous producer
    std::vector<SlabTicket> kept;        // and still holds these, or has released them
    bool away = false;  // a previous producer's consumer that has not returned: no connection, but a pidfd
    ConsumerRef ref;
    std::uint32_t window = 0;  // deliveries that it will hold at a time
    std::uint32_t held = 0;
    std::uint64_t next_delivery = 1;
    std::uint64_t releases_seen = 0;  // through this sequence number
    std::uint64_t acknowledged = 0;   // of those, through this one
    TimePoint acknowledged_at{};
    TimePoint unacknowledged_since{};               // when there are any
    bool served = false;                            // got tickets since any releases were acknowledged
    std::map<std::uint64_t, std::string> failures;  // reasons, by the number of the coming release
    bool in_doubt = false;                          // it repeats a message, or has a gap: answer immediately
    std::uint64_t last_served = 0;                  // for fairness among equals
    std::vector<SlabTicket> to_send;

    // Signs of life: the heartbeat record at its last change.
    std::uint64_t last_seen_work = 0;
    std::uint64_t last_seen_progress = 0;
    TimePoint alive_at{};
    bool stalled = false;  // its visibility timeouts ran out: no deliveries until it makes progress
    std::chrono::nanoseconds stall_reported{};  // the time without progress at the last log line

    SlabTotals completed;
};

}  // namespace offramp
