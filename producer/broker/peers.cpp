#include "producer/broker/peers.hpp"

#include <algorithm>
#include <utility>

namespace offramp {
namespace {

constexpr std::size_t kDeparturesKept = 1000;

}  // namespace

Peer* PeerTable::find(const std::string& routing_id) {
    const auto found = peers_.find(routing_id);
    return found == peers_.end() ? nullptr : found->second.get();
}

Peer* PeerTable::find_session(std::uint64_t session) {
    for (auto& [id, peer] : peers_)
        if (peer->admitted && !peer->gone && peer->ref.session == session) return peer.get();
    return nullptr;
}

Peer* PeerTable::find_away(std::uint64_t token) {
    for (auto& [id, peer] : peers_)
        if (peer->away && !peer->gone && peer->token == token) return peer.get();
    return nullptr;
}

std::size_t PeerTable::present() const {
    return static_cast<std::size_t>(
        std::count_if(peers_.begin(), peers_.end(), [](const auto& entry) { return !entry.second->away; }));
}

void PeerTable::add(std::unique_ptr<Peer> peer) {
    const std::string routing_id = peer->routing_id;
    peers_.emplace(routing_id, std::move(peer));
    wait_fds_.clear();
}

void PeerTable::remove(const std::string& routing_id) {
    peers_.erase(routing_id);
    wait_fds_.clear();
}

void PeerTable::remove_gone() {
    if (std::erase_if(peers_, [](const auto& entry) { return entry.second->gone; }) > 0) wait_fds_.clear();
}

double PeerTable::busy_seconds(const Peer& peer) const {
    const HeartbeatRecord& heartbeat = heartbeat_of(peer);
    // A heartbeat record of another session is a leftover of the index's previous user.
    return load_word(heartbeat.session) == peer.ref.session ? static_cast<double>(load_word(heartbeat.busy_ns)) / 1e9
                                                            : 0;
}

void PeerTable::note_departure(const Peer& peer, const char* how) {
    if (departed_.size() >= kDeparturesKept) departed_.erase(departed_.begin());
    departed_.push_back({.pid = static_cast<std::uint64_t>(peer.credentials.pid),
                         .session = admission_of(peer.ref.session),
                         .consumer_index = peer.ref.consumer_index,
                         .completed = peer.completed,
                         .busy_seconds = busy_seconds(peer),
                         .end = how});
}

std::vector<ConsumerReport> PeerTable::reports() const {
    std::vector<ConsumerReport> reports = departed_;
    for (const auto& [id, peer] : peers_) {
        if (!peer->admitted) continue;
        reports.push_back({.pid = static_cast<std::uint64_t>(peer->credentials.pid),
                           .session = admission_of(peer->ref.session),
                           .consumer_index = peer->ref.consumer_index,
                           .holding = peer->held,
                           .completed = peer->completed,
                           .busy_seconds = busy_seconds(*peer),
                           .ready = peer->window > 0 && !peer->draining});
    }
    return reports;
}

const std::vector<int>& PeerTable::wait_fds(int first) {
    if (wait_fds_.empty()) {
        wait_fds_.push_back(first);
        wait_ids_.clear();
        for (const auto& [id, peer] : peers_) {
            wait_fds_.push_back(peer->watched.died.get());
            wait_ids_.push_back(id);
        }
    }
    return wait_fds_;
}

}  // namespace offramp
