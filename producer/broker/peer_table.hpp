#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/wire/ledger_layout.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/peer.hpp"

namespace offramp {

// All consumers that the broker is connected to, and the reports of those that have left.
//
// Owns: the records of connections, and with them their pidfds. Borrows: the consumers' heartbeat records, read-only.
// Thread: the broker's. Blocks: never. Errors: none.
class PeerTable {
  public:
    explicit PeerTable(std::span<const HeartbeatRecord> heartbeats) : heartbeats_(heartbeats) {}

    // By routing id: [id, peer] of each, always in this order.
    using Peers = std::map<std::string, std::unique_ptr<Peer>>;
    Peers::iterator begin() { return peers_.begin(); }
    Peers::iterator end() { return peers_.end(); }
    Peers::const_iterator begin() const { return peers_.begin(); }
    Peers::const_iterator end() const { return peers_.end(); }
    bool empty() const { return peers_.empty(); }
    std::size_t size() const { return peers_.size(); }
    // Null when there is none. A removed peer is found until the end of the step.
    Peer* find(const std::string& routing_id);
    // An admitted peer that is still there; null when there is none.
    Peer* find_session(std::uint64_t session);
    // A peer that is away, by its token; null when there is none.
    Peer* find_away(std::uint64_t token);
    // Connections, excluding those of a previous producer that have not come back.
    std::size_t present() const;
    // The run's number of consumers.
    std::size_t capacity() const { return heartbeats_.size(); }

    void add(std::unique_ptr<Peer> peer);
    void remove(const std::string& routing_id);
    void remove_gone();

    // The heartbeat record of an admitted peer: perhaps a leftover of the index's previous user, see its session.
    const HeartbeatRecord& heartbeat_of(const Peer& peer) const { return heartbeats_[peer.ref.consumer_index]; }
    // Records a departure: "disconnected" or "died".
    void note_departure(const Peer& peer, const char* how);
    // Departed consumers, then present ones.
    std::vector<ConsumerReport> reports() const;

    // `first`, then each peer's pidfd. Valid until a peer comes or goes.
    const std::vector<int>& wait_fds(int first);
    // The owners of those pidfds: one less than wait_fds().
    const std::vector<std::string>& wait_ids() const { return wait_ids_; }

  private:
    double busy_seconds(const Peer& peer) const;

    std::span<const HeartbeatRecord> heartbeats_;
    Peers peers_;
    std::vector<ConsumerReport> departed_;
    std::vector<int> wait_fds_;  // empty after a peer came or went
    std::vector<std::string> wait_ids_;
};

}  // namespace offramp
