// What holds after every step of a simulated run, and at its end.

#include "tests/simulation/simulated_run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/simulated_consumer.hpp"
#include "tests/simulation/simulated_producer.hpp"

namespace offramp::simulation {

// --- what became of the batches ---

std::optional<std::uint64_t> SimulatedRun::batch_in(std::uint32_t slab, std::uint64_t generation) const {
    if (slab >= contents_.size() || contents_[slab].generation != generation) return std::nullopt;
    return contents_[slab].batch;
}

void SimulatedRun::on_completed(std::uint64_t number) {
    Batch& batch = batches_.at(number);
    if (batch.commits == 0) throw Violation(fmt::format("batch {} is completed, and no consumer processed it", number));
    if (std::exchange(batch.completed, true)) throw Violation(fmt::format("batch {} is completed twice", number));
    if (batch.dead_letter) throw Violation(fmt::format("batch {} is completed and a dead letter", number));
    ++counts_.completed;
    if (trace_) say(fmt::format("batch {} is completed", number));
}

void SimulatedRun::on_dead_letter(std::uint64_t number) {
    Batch& batch = batches_.at(number);
    if (std::exchange(batch.dead_letter, true)) throw Violation(fmt::format("batch {} is a dead letter twice", number));
    if (batch.completed) throw Violation(fmt::format("batch {} is completed and a dead letter", number));
    if (!batch.rejected && batch.blame < setup_.max_failures)
        throw Violation(fmt::format("batch {} is a dead letter after {} failures", number, batch.blame));
    ++counts_.dead_letters;
    if (trace_) say(fmt::format("batch {} is a dead letter", number));
}

void SimulatedRun::note_delivery(const SlabTicket& ticket) {
    if (ticket.attempt > 1) ++counts_.redeliveries;
    for (const SlabTicket& before : delivered_)
        if (before.slab == ticket.slab && before.generation == ticket.generation && before.attempt == ticket.attempt)
            throw Violation(fmt::format("delivery {} of slab {} was begun twice", ticket.attempt, ticket.slab));
    delivered_.push_back(ticket);
}

void SimulatedRun::check_bytes(std::uint32_t slab, std::uint64_t batch, const std::string& reader) const {
    const std::byte* const payload = shared_.slab(slab).data() + shared_.layout().header_bytes;
    for (std::size_t i = 0; i < kPayloadWords; ++i) {
        std::uint64_t found = 0;
        std::memcpy(&found, payload + i * sizeof found, sizeof found);
        if (found != payload_word(batch, i))
            throw Violation(fmt::format("{} reads batch {} in slab {}, and its bytes changed", reader, batch, slab));
    }
}

// --- the checks ---

void SimulatedRun::check() {
    for (const auto& consumer : consumers_) consumer->check();
    const SlabLedger::Memory memory = shared_.memory().ledger();
    for (std::size_t slab = 0; slab < memory.entries.size(); ++slab) {
        const SlabEntry& entry = memory.entries[slab];
        const SlabWord word = SlabWord::unpack(entry.word);
        digest_ = Random(digest_ ^ entry.word ^ entry.failures).next();
        for (const std::uint64_t& place : entry.holders) {
            if (place == 0) continue;
            digest_ = Random(digest_ ^ place).next();
            const HolderWord holder = HolderWord::unpack(place);
            for (const std::uint64_t* other = &place + 1; other != entry.holders.data() + kMaxHolders; ++other)
                if (*other != 0 && HolderWord::unpack(*other).attempt == holder.attempt)
                    throw Violation(fmt::format("delivery {} of slab {} has two holders", holder.attempt, slab));
            if (word.state == SlabState::Free || word.state == SlabState::Filling)
                throw Violation(fmt::format("slab {} is {} and held", slab, to_string(word.state)));
            if (memory.consumers[holder.consumer_index].session != holder.session)
                throw Violation(fmt::format("slab {} is held by a session that is over", slab));
        }
    }
}

// Between two steps of the broker, the progress record and the slabs agree.
void SimulatedRun::check_conservation() {
    const ProgressRecord totals = ProgressLog(shared_.memory().progress()).totals();
    std::uint64_t in_flight = 0;
    const SlabLedger::Memory memory = shared_.memory().ledger();
    for (std::size_t slab = 0; slab < memory.entries.size(); ++slab) {
        const SlabWord word = SlabWord::unpack(memory.entries[slab].word);
        if (word.state == SlabState::Ready || word.state == SlabState::Leased)
            in_flight += samples_of(contents_[slab].batch);
    }
    if (totals.published.samples != totals.completed.samples + totals.dead_letters.samples + in_flight)
        throw Violation(fmt::format("{} samples are published, {} completed, {} dead letters and {} in flight",
                                    totals.published.samples, totals.completed.samples, totals.dead_letters.samples,
                                    in_flight));
}

void SimulatedRun::check_end() {
    const ProgressRecord totals = ProgressLog(shared_.memory().progress()).totals();
    counts_.published += totals.published.slabs;
    if (totals.published.samples + totals.skipped + totals.dropped != totals.items_through)
        throw Violation(fmt::format("{} items are through, {} published, {} skipped, {} dropped", totals.items_through,
                                    totals.published.samples, totals.skipped, totals.dropped));
    std::uint64_t completed = 0, dead = 0;
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        const Batch& batch = batches_[number];
        completed += batch.completed ? samples_of(number) : 0;
        dead += batch.dead_letter ? samples_of(number) : 0;
        if (!aborting_ && !batch.completed && !batch.dead_letter && !batch.dropped)
            throw Violation(fmt::format("batch {} is lost", number));
    }
    if (completed != totals.completed.samples || dead != totals.dead_letters.samples)
        throw Violation(fmt::format("{} samples were completed and {} became dead letters, but {} and {} are counted",
                                    completed, dead, totals.completed.samples, totals.dead_letters.samples));
    for (std::uint32_t slab = 0; slab < setup_.slabs; ++slab) {
        const SlabState state = producer_->ledger->word(slab).state;
        const bool may_wait = aborting_ && (state == SlabState::Ready || state == SlabState::Leased);
        if (closed_early_) continue;
        if (!producer_->ledger->holders(slab).empty()) throw Violation(fmt::format("slab {} is held at the end", slab));
        if (state != SlabState::Free && !may_wait)
            throw Violation(fmt::format("slab {} is {} at the end", slab, to_string(state)));
    }
}

}  // namespace offramp::simulation
