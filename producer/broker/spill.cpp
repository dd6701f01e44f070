#include "producer/broker/spill.hpp"

#include <chrono>
#include <string>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {
namespace {

// After a failed write (a full disk), wait before the next one.
constexpr std::chrono::nanoseconds kAfterFailure = std::chrono::seconds(5);

}  // namespace

void Spill::adopt(std::span<const SpilledSlab> spilled) {
    for (const SpilledSlab& slab : spilled) {
        spilled_.push_back(slab);
        state_.totals.spilled += slab.published.totals();
    }
}

void Spill::take_outcome() {
    const auto outcome = state_.options.spill ? state_.options.spill->take_outcome() : std::nullopt;
    if (!outcome) return;
    if (outcome->job == SpillStore::Outcome::Job::Wrote)
        on_written(*outcome);
    else
        on_read_back(*outcome);
}

void Spill::set_to_work() {
    if (!state_.options.spill) return;
    if (state_.options.spill->busy() || run_end_.closing()) return;
    if (wants_to_write()) {
        writing_ = oldest_waiting();
        if (writing_)
            state_.options.spill->write(*writing_, state_.ledger.word(*writing_).generation,
                                        state_.memory.bytes_of(*writing_));
    } else if (!spilled_.empty()) {
        read_next_back();
    }
}

// Once the slab is Free, the file is the copy that counts.
void Spill::on_written(const SpillStore::Outcome& outcome) {
    writing_.reset();
    if (state_.totals.spill_error != outcome.error && !outcome.error.empty())
        spdlog::error("the run waits for a free slab, since none can be spilled: {}", outcome.error);
    state_.totals.spill_error = outcome.error;
    if (!outcome.error.empty()) {
        next_write_ = state_.clock.now() + kAfterFailure;
        return;
    }
    const PublishedSlab& published = state_.slab_records[outcome.slab].published;
    if (state_.totals.ever_spilled.slabs == 0)
        spdlog::warn("consumers are slower than the producer: slabs wait in {}", state_.options.spill->folder());
    spilled_.push_back({outcome.file, published});
    state_.totals.spilled += published.totals();
    state_.totals.ever_spilled += published.totals();
    state_.ledger.spill(outcome.slab);
    state_.ready.remove(outcome.slab);
}

// Publishes first, under the new number, then removes the file: a recovery in between finds both and knows that they
// are the same slab.
void Spill::on_read_back(const SpillStore::Outcome& outcome) {
    if (run_end_.aborting()) {
        state_.ledger.abandon(outcome.slab);
        return;
    }
    if (!outcome.error.empty()) throw Error(ErrorKind::Internal, "a spilled slab is lost: " + outcome.error);
    restamp_slab(state_.memory.bytes_of(outcome.slab), state_.ledger.epoch(), outcome.slab,
                 state_.ledger.word(outcome.slab).generation);
    PublishedSlab published = spilled_.front().published;
    spilled_.pop_front();
    published.slab = outcome.slab;
    state_.ledger.publish(outcome.slab);
    failpoint("spill.read_back");
    SpillStore::remove(outcome.file);
    state_.totals.spilled -= published.totals();
    state_.slab_records[outcome.slab] = {.published = published};
    state_.ready.put_ahead(outcome.slab);
}

// A brief delay of consumers is not worth a file.
bool Spill::wants_to_write() {
    if (!state_.egress_is_short()) {
        egress_waits_since_.reset();
        return false;
    }
    const TimePoint now = state_.clock.now();
    if (!egress_waits_since_) egress_waits_since_ = now;
    return now - *egress_waits_since_ >= kPatience && now >= next_write_;
}

// Skips a slab that took down a consumer, to keep its incident report, and a recovered slab whose memory is not there
// yet.
std::optional<std::uint32_t> Spill::oldest_waiting() const {
    std::optional<std::uint32_t> oldest;
    for (const ReadySlab& entry : state_.ready) {
        const SlabWord word = state_.ledger.word(entry.slab);
        if (!ReadyQueue::is_current(entry, word) || !state_.memory.usable(entry.slab)) continue;
        if (state_.ledger.failures(entry.slab) > 0 || !state_.ledger.holders(entry.slab).empty()) continue;
        if (!oldest || state_.slab_records[entry.slab].published.items_through <
                           state_.slab_records[*oldest].published.items_through)
            oldest = entry.slab;
    }
    return oldest;
}

// Reads a slab back only when consumers would otherwise idle: the egress and slabs in memory come first.
void Spill::read_next_back() {
    if (state_.exchange.waiting() || !state_.ready.empty()) return;
    if (const auto slab = state_.ledger.acquire(state_.memory.usable))
        state_.options.spill->read(spilled_.front().file, *slab, state_.memory.bytes_of(*slab));
}

}  // namespace offramp
