#include "producer/broker/dead_letters.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/log.hpp"

namespace offramp {
namespace {

// The last line of a traceback is the error itself.
std::string last_line(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace

std::uint32_t DeadLetters::most_at_the_writer() const { return std::max(1U, state_.ledger.slab_count() / 10); }

// Failures reported to a predecessor are known only as a count: they count as deaths here.
std::uint64_t DeadLetters::deaths_of(std::uint32_t slab) const {
    const std::uint64_t failures = state_.ledger.failures(slab);
    return failures - std::min<std::uint64_t>(failures, state_.slab_records[slab].failures);
}

std::string DeadLetters::reason_of(std::uint32_t slab) const {
    const SlabRecord& slab_record = state_.slab_records[slab];
    const std::uint64_t deaths = deaths_of(slab);
    const auto last = std::ranges::find_if(slab_record.failed.rbegin(), slab_record.failed.rend(),
                                           [](const DeliveryRecord& delivery) { return !delivery.why.empty(); });
    const std::string why = last == slab_record.failed.rend() ? "" : ": " + last_line(last->why);
    if (slab_record.rejected) return "a consumer rejected it" + why;
    if (state_.ledger.failures(slab) < state_.options.max_failures)
        return "it was handed out " + std::to_string(state_.ledger.word(slab).attempt) + " times and never finished";
    const char* const consumers = deaths == 1 ? " consumer" : " consumers";
    if (slab_record.failures == 0) return "it took down " + std::to_string(deaths) + consumers;
    return "it failed " + std::to_string(slab_record.failures) + (slab_record.failures == 1 ? " time" : " times") +
           (deaths > 0 ? " and took down " + std::to_string(deaths) + consumers : "") + why;
}

void DeadLetters::dead_letter(std::uint32_t slab) {
    const SlabRecord& slab_record = state_.slab_records[slab];
    state_.count_step(CountedStep::DeadLetter, slab_record.published);
    state_.ledger.dead_letter(slab);
    state_.totals.dead_lettered += slab_record.published.totals();
    spdlog::error("batch {} became a dead letter: {}; {} samples", slab_record.published.first_batch, reason_of(slab),
                  slab_record.published.samples);
    if (state_.options.on_dead_letter) state_.options.on_dead_letter(slab_record.published);
    enqueue(slab);
}

void DeadLetters::enqueue(std::uint32_t slab) {
    const SlabRecord& slab_record = state_.slab_records[slab];
    const std::size_t entry = state_.totals.dead_letters->add(
        {.first_batch = slab_record.published.first_batch,
         .samples = slab_record.published.samples,
         .deaths = deaths_of(slab),
         .failures = slab_record.failures,
         .reason = reason_of(slab),
         .pids = slab_record.killed_pids,
         .payload = {},
         .error = state_.options.dead_letters ? "the run ended before it was written" : "this run keeps no payloads"});
    if (state_.options.dead_letters)
        queue_.push_back({slab, entry});
    else
        state_.ledger.discard(slab);
}

void DeadLetters::free_written() {
    if (at_the_writer_.empty()) return;
    for (DeadLetterOutcome& outcome : state_.options.dead_letters->take_outcomes()) {
        const auto written = std::find_if(at_the_writer_.begin(), at_the_writer_.end(),
                                          [&](const Pending& entry) { return entry.slab == outcome.slab; });
        if (written == at_the_writer_.end()) continue;
        if (outcome.payload.empty()) ++state_.totals.payloads_lost;
        state_.totals.dead_letters->set_outcome(written->entry, std::move(outcome.payload), std::move(outcome.error));
        at_the_writer_.erase(written);
        state_.ledger.discard(outcome.slab);
    }
}

void DeadLetters::write_next() {
    while (!queue_.empty() && at_the_writer_.size() < most_at_the_writer()) {
        const Pending next = queue_.front();
        queue_.pop_front();
        at_the_writer_.push_back(next);
        const SlabRecord& slab_record = state_.slab_records[next.slab];
        const DeadLetter entry = state_.totals.dead_letters->at(next.entry);
        state_.options.dead_letters->submit({.ticket = {.epoch = state_.ledger.epoch(),
                                                        .slab = next.slab,
                                                        .generation = state_.ledger.word(next.slab).generation},
                                             .first_batch = slab_record.published.first_batch,
                                             .reason = entry.reason,
                                             .deaths = entry.deaths,
                                             .failures = entry.failures,
                                             .deliveries = slab_record.failed});
    }
}

}  // namespace offramp
