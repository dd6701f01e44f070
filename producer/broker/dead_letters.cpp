#include "producer/broker/dead_letters.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/log.hpp"

namespace offramp {

std::uint32_t DeadLetters::most_at_the_writer() const { return std::max(1U, state_.ledger.slab_count() / 10); }

void DeadLetters::quarantine(std::uint32_t slab) {
    const SlabFillings::Filling& filling = state_.fillings[slab];
    state_.count_step(CountedStep::Quarantine, filling.published);
    state_.ledger.quarantine(slab);
    state_.totals.quarantined += filling.published.totals();
    spdlog::error("batch {} took down {} consumers and is given up: {} samples", filling.published.first_batch,
                  state_.ledger.charges(slab), filling.published.samples);
    see_to(slab);
}

void DeadLetters::see_to(std::uint32_t slab) {
    const SlabFillings::Filling& filling = state_.fillings[slab];
    state_.totals.dead_letters.push_back(
        {.first_batch = filling.published.first_batch,
         .samples = filling.published.samples,
         .deaths = state_.ledger.charges(slab),
         .pids = filling.killed_pids,
         .payload = {},
         .error = state_.options.dead_letters ? "the run ended before it was written" : "this run keeps no payloads"});
    if (state_.options.dead_letters)
        queue_.push_back({slab, state_.totals.dead_letters.size() - 1});
    else
        state_.ledger.discard(slab);
}

void DeadLetters::free_written() {
    if (at_the_writer_.empty()) return;
    for (DeadLetterOutcome& outcome : state_.options.dead_letters->take_outcomes()) {
        const auto written = std::find_if(at_the_writer_.begin(), at_the_writer_.end(),
                                          [&](const Pending& entry) { return entry.slab == outcome.slab; });
        if (written == at_the_writer_.end()) continue;
        DeadLetter& entry = state_.totals.dead_letters[written->entry];
        entry.payload = std::move(outcome.payload);
        entry.error = std::move(outcome.error);
        if (entry.payload.empty()) ++state_.totals.payloads_lost;
        at_the_writer_.erase(written);
        state_.ledger.discard(outcome.slab);
    }
}

void DeadLetters::write_next() {
    while (!queue_.empty() && at_the_writer_.size() < most_at_the_writer()) {
        const Pending next = queue_.front();
        queue_.pop_front();
        at_the_writer_.push_back(next);
        const SlabFillings::Filling& filling = state_.fillings[next.slab];
        const DeadLetter& entry = state_.totals.dead_letters[next.entry];
        state_.options.dead_letters->submit(
            {.ticket = {.epoch = state_.ledger.epoch(),
                        .slab = next.slab,
                        .generation = state_.ledger.word(next.slab).generation},
             .first_batch = filling.published.first_batch,
             .reason = entry.deaths >= state_.options.max_charges
                           ? "it took down " + std::to_string(entry.deaths) + " consumers"
                           : "it was handed out " + std::to_string(state_.ledger.word(next.slab).attempt) +
                                 " times and never finished",
             .deaths = entry.deaths,
             .deliveries = filling.failed});
    }
}

}  // namespace offramp
