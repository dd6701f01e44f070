// The broker's way to the disk and back: while the egress needs a slab and none is free, the oldest that waits for a consumer goes
// there; when nothing else waits, it comes back.

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/broker/broker.hpp"
#include "producer/broker/broker_peer.hpp"

namespace offramp {
namespace {

// A full disk does not become emptier by asking it all the time.
constexpr std::chrono::nanoseconds kAfterFailure = std::chrono::seconds(5);

}  // namespace

void Broker::see_to_the_spill() {
    if (!options_.spill) return;
    if (options_.spill->busy() || aborting_ || farewell_until_) return;
    if (wants_to_spill()) {
        spilling_ = oldest_waiting();
        if (spilling_) options_.spill->write(*spilling_, ledger_.word(*spilling_).generation, memory_.bytes_of(*spilling_));
    } else if (!spilled_.empty()) {
        read_next_back();
    }
}

void Broker::take_spill_outcome() {
    const auto outcome = options_.spill ? options_.spill->take_outcome() : std::nullopt;
    if (!outcome) return;
    if (outcome->job == SpillStore::Outcome::Job::Wrote)
        on_spilled(*outcome);
    else
        on_read_back(*outcome);
}

// From the moment at which the slab is Free, the file is the copy that counts.
void Broker::on_spilled(const SpillStore::Outcome& outcome) {
    spilling_.reset();
    if (books_.spill_error != outcome.error && !outcome.error.empty())
        spdlog::error("the run waits for a free slab, since none can be spilled: {}", outcome.error);
    books_.spill_error = outcome.error;
    if (!outcome.error.empty()) {
        next_spill_ = clock_.now() + kAfterFailure;
        return;
    }
    const PublishedSlab& published = fillings_[outcome.slab].published;
    if (books_.ever_spilled.slabs == 0)
        spdlog::warn("consumers are slower than the producer: slabs wait in {}", options_.spill->folder());
    spilled_.push_back({outcome.file, published});
    books_.spilled.add(published);
    books_.ever_spilled.add(published);
    ledger_.spill(outcome.slab);
}

// Published under its new number, and only then removed: whoever takes over in between finds both, and knows that they are one.
void Broker::on_read_back(const SpillStore::Outcome& outcome) {
    if (aborting_) {
        ledger_.abandon(outcome.slab);
        return;
    }
    if (!outcome.error.empty()) throw Error(ExitCode::Internal, "a spilled slab is lost: " + outcome.error);
    restamp_slab(memory_.bytes_of(outcome.slab), ledger_.epoch(), outcome.slab, ledger_.word(outcome.slab).generation);
    PublishedSlab published = spilled_.front().published;
    spilled_.pop_front();
    published.slab = outcome.slab;
    ledger_.publish(outcome.slab);
    failpoint("spill.read_back");
    SpillStore::remove(outcome.file);
    books_.spilled.take_away(published);
    fillings_[outcome.slab] = {.published = published};
    make_ready(outcome.slab, {}, false);
}

// Consumers that are a moment late are not worth a file.
bool Broker::wants_to_spill() {
    const bool waits = exchange_.waiting() && ledger_.counts()[static_cast<std::size_t>(SlabState::Free)] == 0;
    const TimePoint now = clock_.now();
    if (!waits) {
        egress_waits_since_.reset();
        return false;
    }
    if (!egress_waits_since_) egress_waits_since_ = now;
    return now - *egress_waits_since_ >= kSpillPatience && now >= next_spill_;
}

// One that took a consumer down stays, and its story with it.
std::optional<std::uint32_t> Broker::oldest_waiting() const {
    std::optional<std::uint32_t> oldest;
    for (const ReadySlab& entry : ready_) {
        const SlabWord word = ledger_.word(entry.slab);
        if (word.state != SlabState::Ready || word.generation != entry.generation) continue;
        if (ledger_.charges(entry.slab) > 0 || !ledger_.holders(entry.slab).empty()) continue;
        if (!oldest || fillings_[entry.slab].published.items_through < fillings_[*oldest].published.items_through)
            oldest = entry.slab;
    }
    return oldest;
}

// The egress comes first, and whatever waits in memory: this is for consumers that would have nothing to do.
void Broker::read_next_back() {
    if (exchange_.waiting() || !ready_.empty()) return;
    if (const auto slab = ledger_.acquire(memory_.usable)) options_.spill->read(spilled_.front().file, *slab, memory_.bytes_of(*slab));
}

}  // namespace offramp
