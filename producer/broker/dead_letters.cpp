#include "producer/broker/dead_letters.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/log.hpp"
#include "producer/broker/run_records.hpp"

namespace offramp {
namespace {

// The last line of a traceback is the error itself.
std::string last_line(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace

std::uint32_t DeadLetters::most_at_the_writer() const { return std::max(1U, ledger_.slab_count() / 10); }

// Failures reported to a predecessor are known only as a count: they count as deaths here.
std::uint64_t DeadLetters::deaths_of(std::uint32_t slab) const {
    const std::uint64_t failures = ledger_.failures(slab);
    return failures - std::min<std::uint64_t>(failures, slab_records_[slab].failures);
}

std::string DeadLetters::reason_of(std::uint32_t slab) const {
    const SlabRecord& slab_record = slab_records_[slab];
    const std::uint64_t deaths = deaths_of(slab);
    const auto last = std::ranges::find_if(slab_record.failed.rbegin(), slab_record.failed.rend(),
                                           [](const DeliveryRecord& delivery) { return !delivery.why.empty(); });
    const std::string why = last == slab_record.failed.rend() ? "" : ": " + last_line(last->why);
    if (slab_record.rejected) return "a consumer rejected it" + why;
    if (ledger_.failures(slab) < options_.max_failures)
        return "it was handed out " + std::to_string(ledger_.word(slab).attempt) + " times and never finished";
    const char* const consumers = deaths == 1 ? " consumer" : " consumers";
    if (slab_record.failures == 0) return "it took down " + std::to_string(deaths) + consumers;
    return "it failed " + std::to_string(slab_record.failures) + (slab_record.failures == 1 ? " time" : " times") +
           (deaths > 0 ? " and took down " + std::to_string(deaths) + consumers : "") + why;
}

void DeadLetters::dead_letter(std::uint32_t slab) {
    const SlabRecord& slab_record = slab_records_[slab];
    count_step(options_.progress, CountedStep::DeadLetter, slab_record.published, ledger_);
    if (options_.before_loss) options_.before_loss(slab_record.published, CountedStep::DeadLetter);
    ledger_.dead_letter(slab);
    totals_.dead_lettered += slab_record.published.totals();
    spdlog::error("{}batch {} became a dead letter: {}; {} samples", in_group(options_),
                  slab_record.published.first_batch, reason_of(slab), slab_record.published.samples);
    if (options_.on_dead_letter) options_.on_dead_letter(slab_record.published);
    enqueue(slab);
}

void DeadLetters::enqueue(std::uint32_t slab) {
    const SlabRecord& slab_record = slab_records_[slab];
    const std::size_t entry = totals_.dead_letters->add(
        {.group = options_.group,
         .first_batch = slab_record.published.first_batch,
         .samples = slab_record.published.samples,
         .deaths = deaths_of(slab),
         .failures = slab_record.failures,
         .reason = reason_of(slab),
         .pids = slab_record.killed_pids,
         .payload = {},
         .error = options_.dead_letters ? "the run ended before it was written" : "this run keeps no payloads"});
    if (options_.dead_letters)
        queue_.push_back({slab, entry});
    else
        ledger_.discard(slab);
}

void DeadLetters::free_written() {
    if (at_the_writer_.empty()) return;
    for (DeadLetterOutcome& outcome : options_.dead_letters->take_outcomes()) {
        const auto written = std::find_if(at_the_writer_.begin(), at_the_writer_.end(),
                                          [&](const Pending& entry) { return entry.slab == outcome.slab; });
        if (written == at_the_writer_.end()) continue;
        if (outcome.payload.empty()) ++totals_.payloads_lost;
        totals_.dead_letters->set_outcome(written->entry, std::move(outcome.payload), std::move(outcome.error));
        at_the_writer_.erase(written);
        ledger_.discard(outcome.slab);
    }
}

void DeadLetters::write_next() {
    while (!queue_.empty() && at_the_writer_.size() < most_at_the_writer()) {
        const Pending next = queue_.front();
        queue_.pop_front();
        at_the_writer_.push_back(next);
        const SlabRecord& slab_record = slab_records_[next.slab];
        const DeadLetter entry = totals_.dead_letters->at(next.entry);
        options_.dead_letters->submit(
            {.ticket = {.epoch = ledger_.epoch(), .slab = next.slab, .generation = ledger_.word(next.slab).generation},
             .first_batch = slab_record.published.first_batch,
             .reason = entry.reason,
             .deaths = entry.deaths,
             .failures = entry.failures,
             .deliveries = slab_record.failed});
    }
}

}  // namespace offramp
