#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/process_watch.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// The seam through which the broker learns of deaths, so that tests can kill a thread.
class PeerWatch {
  public:
    virtual ~PeerWatch() = default;
    // Nothing when the process has ended. Errors: SystemError when the system will not watch (no descriptors left).
    virtual std::optional<WatchedProcess> open(pid_t pid) = 0;
    // Sends SIGKILL to the process behind the pidfd. The process is dead when the pidfd is readable, not before. 0, or
    // the errno of the refusal.
    virtual int kill(int pidfd) = 0;
};

// Watches through pidfd_open(2).
class PidfdWatch final : public PeerWatch {
  public:
    std::optional<WatchedProcess> open(pid_t pid) override { return watch_process(static_cast<std::uint64_t>(pid)); }
    int kill(int pidfd) override {
        return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0 ? 0 : errno;
    }
};

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
