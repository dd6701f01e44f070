#include "producer/broker/spill.hpp"

#include <chrono>
#include <string>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/broker/run_records.hpp"
#include "producer/broker/shortage_report.hpp"

namespace offramp {
namespace {

// After a failed write (a full disk), wait before the next one.
constexpr std::chrono::nanoseconds kAfterFailure = std::chrono::seconds(5);

}  // namespace

void Spill::adopt(std::span<const SpilledSlab> spilled) {
    for (const SpilledSlab& slab : spilled) {
        spilled_.push_back(slab);
        totals_.spilled += slab.published.totals();
    }
}

void Spill::take_outcome() {
    const auto outcome = store_ ? store_->take_outcome() : std::nullopt;
    if (!outcome) return;
    if (outcome->job == SpillStore::Outcome::Job::Wrote)
        on_written(*outcome);
    else
        on_read_back(*outcome);
}

void Spill::set_to_work() {
    if (!store_) return;
    if (store_->busy() || run_end_.closing()) return;
    if (wants_to_write()) {
        writing_ = oldest_waiting(options_.others.can_be_freed);
        if (writing_) store_->write(*writing_, ledger_.word(*writing_).generation, memory_.bytes_of(*writing_));
    } else if (!spilled_.empty()) {
        read_next_back();
    }
}

// Once the slab is Free, the file is the copy that counts.
void Spill::on_written(const SpillStore::Outcome& outcome) {
    writing_.reset();
    if (totals_.spill_error != outcome.error && !outcome.error.empty())
        spdlog::error("the run waits for a free slab, since none can be spilled: {}", outcome.error);
    totals_.spill_error = outcome.error;
    if (!outcome.error.empty()) {
        next_write_ = clock_.now() + kAfterFailure;
        return;
    }
    const PublishedSlab& published = slab_records_[outcome.slab].published;
    if (totals_.ever_spilled.slabs == 0)
        spdlog::warn("consumers are slower than the producer: slabs wait in {}", store_->folder());
    spilled_.push_back({outcome.file, published});
    if (ledger_.is_lost(outcome.slab)) SpillStore::mark_lost(spilled_.back().file);
    totals_.spilled += published.totals();
    totals_.ever_spilled += published.totals();
    ledger_.vacate(outcome.slab);
    ready_.remove(outcome.slab);
    short_at_ = clock_.now();
}

// Publishes first, under the new number, then removes the file: a recovery in between finds both and knows that they
// are the same slab. Other groups pass over this filling before that, since a slab in use has one generation: a death
// in between leaves a filling to abandon.
void Spill::on_read_back(const SpillStore::Outcome& outcome) {
    if (among_groups()) options_.others.pass_over(outcome.slab);
    if (run_end_.aborting()) {
        ledger_.abandon(outcome.slab);
        return;
    }
    if (!outcome.error.empty()) throw Error(ErrorKind::Internal, "a spilled slab is lost: " + outcome.error);
    restamp_slab(memory_.bytes_of(outcome.slab), ledger_.epoch(), outcome.slab, ledger_.word(outcome.slab).generation);
    const SpilledFile file = spilled_.front().file;
    PublishedSlab published = spilled_.front().published;
    spilled_.pop_front();
    published.slab = outcome.slab;
    if (file.lost) ledger_.mark_lost(outcome.slab);
    ledger_.publish(outcome.slab);
    failpoint("spill.read_back");
    SpillStore::remove(file);
    totals_.spilled -= published.totals();
    slab_records_[outcome.slab] = {.published = published};
    ready_.put_ahead(outcome.slab);
}

void Spill::mark_lost(std::uint64_t filling) {
    for (SpilledSlab& slab : spilled_)
        if (slab.published.filling == filling) SpillStore::mark_lost(slab.file);
}

// A brief delay of consumers is not worth a file.
bool Spill::wants_to_write() {
    const TimePoint now = clock_.now();
    if (!(among_groups() ? options_.others.egress_is_short() : egress_is_short(exchange_, ledger_))) {
        if (!among_groups() || now - short_at_ >= kPatience) short_since_.reset();
        return false;
    }
    short_at_ = now;
    if (!short_since_) short_since_ = now;
    return now - *short_since_ >= kPatience && now >= next_write_;
}

// After a death in between, the slab still waits, or is dropped by the next producer.
void Spill::drop(std::uint32_t slab) {
    const SlabWord word = ledger_.word(slab);
    if (options_.on_dropped && !ledger_.is_lost(slab))
        options_.on_dropped(
            {.epoch = ledger_.epoch(), .slab = slab, .generation = word.generation, .attempt = word.attempt},
            memory_.bytes_of(slab));
    failpoint("broker.drop");
    const PublishedSlab& published = slab_records_[slab].published;
    count_step(options_.progress, CountedStep::Drop, published, ledger_);
    if (options_.before_loss) options_.before_loss(published, CountedStep::Drop);
    ledger_.vacate(slab);
    totals_.dropped += published.totals();
    ready_.remove(slab);
}

// Skips a recovered slab whose memory is not there yet. One that took down a consumer is not spilled, which would lose
// its incident report; but it may be dropped.
std::optional<std::uint32_t> Spill::oldest_waiting(const std::function<bool(std::uint32_t)>& wanted) const {
    std::optional<std::uint32_t> oldest;
    for (const ReadySlab& entry : ready_) {
        const SlabWord word = ledger_.word(entry.slab);
        if (!ReadyQueue::is_current(entry, word) || !memory_.usable(entry.slab)) continue;
        if (wanted && !wanted(entry.slab)) continue;
        if ((store_ && ledger_.failures(entry.slab) > 0) || !ledger_.holders(entry.slab).empty()) continue;
        if (!oldest ||
            slab_records_[entry.slab].published.items_through < slab_records_[*oldest].published.items_through)
            oldest = entry.slab;
        if (word.attempt == 0) break;  // it was never delivered, and those behind it are newer
    }
    return oldest;
}

// Reads a slab back only when consumers would otherwise idle: the egress and slabs in memory come first.
void Spill::read_next_back() {
    if (exchange_.waiting() || !ready_.empty()) return;
    const auto slab = ledger_.acquire([this](std::uint32_t one) {
        return memory_.usable(one) && (!among_groups() || options_.others.have_it_free(one));
    });
    if (slab) store_->read(spilled_.front().file, *slab, memory_.bytes_of(*slab));
}

}  // namespace offramp
