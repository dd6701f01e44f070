#include "producer/broker/liveness_monitor.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/log.hpp"
#include "producer/broker/refusals.hpp"

namespace offramp {
namespace {

// From a peer's Hello to its Answer; a peer that never answers is dropped.
constexpr std::chrono::nanoseconds kHandshake = std::chrono::seconds(5);
// Time between two checks counts for at most this long, or a quarter of a visibility timeout. A longer gap means that
// this process did not run (SIGSTOP, a frozen container, a machine asleep), and most likely nor did its consumers.
constexpr std::chrono::nanoseconds kLongestLook = std::chrono::seconds(1);
// The log repeats a stalled consumer after twice the time each time, but at least this often.
constexpr std::chrono::nanoseconds kLongestSilence = std::chrono::minutes(10);

std::string slabs_held_by(const Peer& peer) {
    return std::to_string(peer.held) + (peer.held == 1 ? " slab" : " slabs");
}

bool is_this_process(const Peer& peer) { return peer.credentials.pid == ::getpid(); }

}  // namespace

bool LivenessMonitor::poll_deaths() {
    if (peers_.empty()) return false;
    const std::vector<int>& fds = peers_.wait_fds(exchange_.wake_fd());
    pidfds_.clear();
    for (std::size_t i = 1; i < fds.size(); ++i) pidfds_.push_back({fds[i], POLLIN, 0});
    if (::poll(pidfds_.data(), pidfds_.size(), 0) <= 0) return false;
    for (std::size_t i = 0; i < pidfds_.size(); ++i)
        if ((pidfds_[i].revents & (POLLIN | POLLHUP)) != 0) dead_.push_back(peers_.wait_ids()[i]);
    return true;
}

void LivenessMonitor::reap_dead_peers() {
    for (const std::string& id : dead_) {
        Peer* const peer = peers_.find(id);
        if (peer != nullptr && !peer->gone) reap(*peer);
    }
    dead_.clear();
}

void LivenessMonitor::reap(Peer& peer) {
    peer.gone = true;
    if (!peer.admitted) return;
    memory_.refresh_heartbeats();  // the dead process writes no more
    const HeartbeatRecord& heartbeat = peers_.heartbeat_of(peer);
    const std::uint64_t work = load_word(heartbeat.session) == peer.ref.session ? load_word(heartbeat.work) : 0;
    peers_.note_departure(peer, "died");
    // A process is often seen to end before its Disconnect arrives.
    if (peer.held == 0 && work == 0)
        spdlog::info("{}consumer {} (pid {}) ended and held nothing", in_group(options_),
                     admission_of(peer.ref.session), peer.credentials.pid);
    else
        spdlog::warn("{}consumer {} (pid {}) died holding {}{}", in_group(options_), admission_of(peer.ref.session),
                     peer.credentials.pid, slabs_held_by(peer), work != 0 ? ", one of them in progress" : "");
    returns_.take_back(peer, work, "died");
}

void LivenessMonitor::leave_out_pause(TimePoint now) {
    const TimePoint last = std::exchange(last_look_, now);
    const auto lost = now - last - std::clamp(options_.visibility_timeout / 4, kLookInterval, kLongestLook);
    if (last == TimePoint{} || lost <= std::chrono::nanoseconds{}) return;
    for (auto& [id, peer] : peers_) {
        peer->alive_at = std::min(now, peer->alive_at + lost);
        peer->since = std::min(now, peer->since + lost);
    }
    run_end_.leave_out(lost);
    if (lost >= kLongestLook)
        spdlog::info("this process did not run for {:.1f} s, which do not count for any visibility timeout",
                     std::chrono::duration<double>(now - last).count());
}

std::optional<TimePoint> LivenessMonitor::begin_look() {
    const TimePoint now = clock_.now();
    if (now < next_look_) return std::nullopt;
    leave_out_pause(now);
    next_look_ = now + kLookInterval;
    memory_.refresh_heartbeats();
    return now;
}

void LivenessMonitor::check_visibility_timeouts(TimePoint now) {
    for (auto& [id, peer] : peers_) {
        if (!peer->admitted && now - peer->since > kHandshake) {
            ++totals_.refused[words(Refusal::ChallengeNotAnswered)];
            peer->gone = true;
        }
        if (!peer->admitted || peer->gone) continue;
        const HeartbeatRecord& heartbeat = peers_.heartbeat_of(*peer);
        const std::uint64_t work = load_word(heartbeat.work);
        const std::uint64_t progress = load_word(heartbeat.progress);
        if (work != peer->last_seen_work || progress != peer->last_seen_progress || peer->held == 0) {
            peer->last_seen_work = work;
            peer->last_seen_progress = progress;
            peer->alive_at = now;
            peer->stalled = false;
        }
        if (peer->stalled) report_stalled(*peer, now - peer->alive_at);
        if (peer->stalled || now - peer->alive_at < options_.visibility_timeout) continue;
        peer->stalled = true;
        peer->stall_reported = options_.visibility_timeout;
        spdlog::warn("{}consumer {} (pid {}) made no progress for {:.1f} s: other consumers also get its slabs",
                     in_group(options_), admission_of(peer->ref.session), peer->credentials.pid,
                     std::chrono::duration<double>(options_.visibility_timeout).count());
        on_stalled(*peer);
        for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
            const SlabWord word = ledger_.word(slab);
            if (word.state != SlabState::Leased) continue;
            const auto holders = ledger_.holders(slab);
            const bool current = std::any_of(holders.begin(), holders.end(), [&](const HolderWord& holder) {
                return holder.session == peer->ref.session && holder.attempt == word.attempt;
            });
            if (!current) continue;
            ledger_.expire(slab);
            slab_records_.note_failed(slab, word.attempt, *peer, "visibility timeout", false);
            ready_.put_ahead(slab);
        }
    }
}

// The consumer made no progress for a visibility timeout. Its slabs go to others in any case; killing it only frees its
// memory sooner, and counts a failure for the slab it is stuck on. Its slabs stay untouched until its pidfd reports its
// death. A consumer in the producer's own process is never killed.
void LivenessMonitor::on_stalled(Peer& peer) {
    ++totals_.visibility_timeouts;
    if (!options_.kills_stalled()) return;
    if (is_this_process(peer)) {
        spdlog::error("{}consumer {} (pid {}) is stalled and is not killed: it runs in the producer's own process",
                      in_group(options_), admission_of(peer.ref.session), peer.credentials.pid);
        return;
    }
    const int refused = watch_.kill(peer.watched.died.get());
    if (refused == 0) {
        ++totals_.stalled_killed;
        spdlog::warn("{}consumer {} (pid {}) is killed: it is stalled", in_group(options_),
                     admission_of(peer.ref.session), peer.credentials.pid);
    } else {
        spdlog::error("{}consumer {} (pid {}) is stalled and cannot be killed: {}", in_group(options_),
                      admission_of(peer.ref.session), peer.credentials.pid, std::strerror(refused));
    }
}

// A batch may hang every consumer for as long as they live: the log keeps reporting it.
void LivenessMonitor::report_stalled(Peer& peer, std::chrono::nanoseconds silent_for) const {
    if (silent_for < peer.stall_reported + std::min(peer.stall_reported, kLongestSilence)) return;
    peer.stall_reported = silent_for;
    spdlog::warn("{}consumer {} (pid {}) has made no progress for {:.1f} s and keeps {}{}", in_group(options_),
                 admission_of(peer.ref.session), peer.credentials.pid,
                 std::chrono::duration<double>(silent_for).count(), slabs_held_by(peer),
                 options_.kills_stalled() ? "" : ": it is not killed, since kill-stalled is off");
}

}  // namespace offramp
