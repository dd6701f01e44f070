#include "producer/broker/shortage_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.hpp"

namespace offramp {
namespace {

constexpr std::chrono::nanoseconds kFirstShortageMessage = std::chrono::seconds(5);
constexpr std::chrono::nanoseconds kLongestShortageInterval = std::chrono::seconds(60);
constexpr std::size_t kConsumersNamed = 8;

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void ShortageReport::describe(BrokerReport& report, bool short_together) const {
    report.slabs = ledger_.counts();
    report.consumers = peers_.reports();
    describe_holders(report);
    describe_shortage(report, short_together);
}

// Fills in what each consumer holds, and its longest hold.
void ShortageReport::describe_holders(BrokerReport& report) const {
    const TimePoint now = clock_.now();
    for (ConsumerReport& consumer : report.consumers) {
        if (!consumer.end.empty()) continue;
        const auto peer = std::find_if(peers_.begin(), peers_.end(), [&](const auto& entry) {
            return entry.second->admitted && admission_of(entry.second->ref.session) == consumer.session;
        });
        consumer.stalled = peer != peers_.end() && peer->second->stalled;
    }
    for (std::uint32_t slab = 0; slab < ledger_.slab_count(); ++slab) {
        const SlabWord word = ledger_.word(slab);
        if (word.state == SlabState::Free || word.state == SlabState::Filling) continue;
        for (const HolderWord& holder : ledger_.holders(slab)) {
            const auto consumer =
                std::find_if(report.consumers.begin(), report.consumers.end(), [&](const ConsumerReport& known) {
                    return known.end.empty() && known.session == admission_of(holder.session);
                });
            if (consumer == report.consumers.end()) continue;
            consumer->held.push_back(slab);
            std::uint64_t since = to_ns(slab_records_[slab].leased_at);
            for (const DeliveryRecord& record : slab_records_[slab].failed)
                if (record.attempt == holder.attempt) since = record.delivered_at_ns;
            consumer->oldest_hold_seconds =
                std::max(consumer->oldest_hold_seconds, static_cast<double>(to_ns(now) - since) / 1e9);
        }
    }
}

void ShortageReport::describe_shortage(BrokerReport& report, bool short_together) const {
    const auto of = [&](SlabState state) { return report.slabs[static_cast<std::size_t>(state)]; };
    if (of(SlabState::Free) > 0 && !short_together) return;
    // What waits in a group that drops is dropped when the egress needs it, or another group has it and reports it.
    const std::uint32_t in_use = of(SlabState::Leased) + of(SlabState::Retired) + of(SlabState::DeadLettered);
    const bool is_dropping = !options_.group.empty() && options_.policy.drops_oldest();
    if (is_dropping && (of(SlabState::Ready) > 0 || in_use == 0)) return;
    std::size_t living = 0;
    std::size_t staying = 0;
    for (const auto& [id, peer] : peers_) {
        living += peer->admitted ? 1U : 0U;
        staying += peer->admitted && (!peer->draining || peer->away) ? 1U : 0U;  // one that is away will return
    }
    const std::uint32_t wanted = of(SlabState::Ready) + of(SlabState::Leased);
    const std::uint32_t others =
        std::max({of(SlabState::Retired), of(SlabState::DeadLettered), of(SlabState::Filling)});
    if (wanted >= others && living == 0)
        report.shortage_reason = kShortageNoConsumers;
    else if (wanted >= others)
        report.shortage_reason = staying == 0 ? kShortageDraining : kShortageLeased;
    else
        report.shortage_reason = others == of(SlabState::Retired)        ? kShortageHeld
                                 : others == of(SlabState::DeadLettered) ? kShortageDeadLetters
                                                                         : kShortageFilling;
    std::string& text = report.shortage;
    text = in_group(options_);
    text += living == 0 ? "no consumers" : staying == 0 ? "every consumer is leaving" : "all slabs are in use";
    for (std::size_t state = 1; state < kSlabStates; ++state)
        if (report.slabs[state] > 0)
            text += ", " + std::to_string(report.slabs[state]) + " " +
                    std::string(to_string(static_cast<SlabState>(state)));

    // Longest holders first.
    std::vector<const ConsumerReport*> holders;
    for (const ConsumerReport& consumer : report.consumers)
        if (consumer.end.empty() && consumer.holding > 0) holders.push_back(&consumer);
    std::sort(holders.begin(), holders.end(), [](const ConsumerReport* a, const ConsumerReport* b) {
        return a->oldest_hold_seconds > b->oldest_hold_seconds;
    });
    for (std::size_t i = 0; i < std::min(holders.size(), kConsumersNamed); ++i)
        text +=
            fmt::format("{}pid {} holds {} for {:.1f} s{}", i == 0 ? "; " : ", ", holders[i]->pid, holders[i]->holding,
                        holders[i]->oldest_hold_seconds, holders[i]->stalled ? " (stalled)" : "");
    if (holders.size() > kConsumersNamed) text += fmt::format(", {} more", holders.size() - kConsumersNamed);
}

void ShortageReport::watch(TimePoint now) {
    if (!egress_is_short(exchange_, ledger_)) {
        if (short_since_ && message_interval_ > kFirstShortageMessage)
            spdlog::info("a slab is free again after {:.1f} s", seconds(now - *short_since_));
        short_since_.reset();
        return;
    }
    if (!short_since_) {
        short_since_ = now;
        message_interval_ = kFirstShortageMessage;
        next_message_ = now + kFirstShortageMessage;
    }
    if (now < next_message_) return;
    BrokerReport report;
    describe(report, false);
    if (!report.shortage.empty())  // else other groups report it
        spdlog::warn("no slab has been free for {:.0f} s: {}", seconds(now - *short_since_), report.shortage);
    message_interval_ = std::min(message_interval_ * 2, kLongestShortageInterval);
    next_message_ = now + message_interval_;
}

}  // namespace offramp
