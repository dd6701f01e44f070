// The broker's quarantine: what is given up goes to the disk, and its memory back into the pool.

#include <algorithm>

#include "common/base/log.hpp"
#include "producer/broker/broker.hpp"
#include "producer/broker/broker_peer.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostFailedDeliveries = 64;   // of one filling, that are remembered

}  // namespace

// A delivery that completes nothing may end twice: its lease runs out, and later its holder dies. The last word stands.
void Broker::note_failed(std::uint32_t slab, std::uint32_t attempt, const Peer& peer, const char* end, bool charged) {
    Filling& filling = fillings_[slab];
    const auto known = std::find_if(filling.failed.begin(), filling.failed.end(), [&](const DeliveryRecord& record) {
        return record.attempt == attempt && record.session == peer.ref.session;
    });
    DeliveryRecord record{.attempt = attempt,
                          .pid = static_cast<std::uint64_t>(peer.credentials.pid),
                          .session = peer.ref.session,
                          .delivered_at_ns = to_ns(filling.leased_at),
                          .ended_at_ns = to_ns(clock_.now()),
                          .end = end,
                          .charged = charged};
    if (known != filling.failed.end()) {
        record.delivered_at_ns = known->delivered_at_ns;
        *known = std::move(record);
        return;
    }
    if (filling.failed.size() >= kMostFailedDeliveries) filling.failed.erase(filling.failed.begin());
    filling.failed.push_back(std::move(record));
}

void Broker::give_up(std::uint32_t slab) {
    const Filling& filling = fillings_[slab];
    count_step(CountedStep::GiveUp, filling.published);
    ledger_.quarantine(slab);
    books_.quarantined.add(filling.published);
    spdlog::error("batch {} took down {} consumers and is given up: {} samples", filling.published.first_batch,
                  ledger_.charges(slab), filling.published.samples);
    see_to_given_up(slab);
}

// It is Quarantined, and counted.
void Broker::see_to_given_up(std::uint32_t slab) {
    const Filling& filling = fillings_[slab];
    books_.given_up.push_back({.first_batch = filling.published.first_batch,
                               .samples = filling.published.samples,
                               .deaths = ledger_.charges(slab),
                               .pids = filling.killed_pids,
                               .payload = {},
                               .error = options_.quarantine ? "the run ended before it was written" : "this run keeps no payloads"});
    if (options_.quarantine)
        quarantine_queue_.push_back({slab, books_.given_up.size() - 1});
    else
        ledger_.discard(slab);
}

// What is on the disk, or cannot get there (that is in the books), makes room.
void Broker::free_what_is_set_aside() {
    if (at_the_writer_.empty()) return;
    for (QuarantineOutcome& outcome : options_.quarantine->take_outcomes()) {
        const auto given_up = std::find_if(at_the_writer_.begin(), at_the_writer_.end(),
                                           [&](const GivenUp& entry) { return entry.slab == outcome.slab; });
        if (given_up == at_the_writer_.end()) continue;
        QuarantinedSlab& entry = books_.given_up[given_up->entry];
        entry.payload = std::move(outcome.payload);
        entry.error = std::move(outcome.error);
        if (entry.payload.empty()) ++books_.payloads_lost;
        at_the_writer_.erase(given_up);
        ledger_.discard(outcome.slab);
    }
}

// The writer has few slabs at a time; those that wait for it stay Quarantined, and nobody else waits for either.
void Broker::set_next_aside() {
    while (!quarantine_queue_.empty() && at_the_writer_.size() < most_at_the_writer()) {
        const GivenUp next = quarantine_queue_.front();
        quarantine_queue_.pop_front();
        at_the_writer_.push_back(next);
        const Filling& filling = fillings_[next.slab];
        const QuarantinedSlab& entry = books_.given_up[next.entry];
        options_.quarantine->set_aside(
            {.ticket = {.epoch = ledger_.epoch(), .slab = next.slab, .generation = ledger_.word(next.slab).generation},
             .first_batch = filling.published.first_batch,
             .reason = entry.deaths >= options_.max_charges
                           ? "it took down " + std::to_string(entry.deaths) + " consumers"
                           : "it was handed out " + std::to_string(ledger_.word(next.slab).attempt) + " times and never finished",
             .deaths = entry.deaths,
             .deliveries = filling.failed});
    }
}

}  // namespace offramp
