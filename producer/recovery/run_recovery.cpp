#include "producer/recovery/run_recovery.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"

namespace offramp {

Endpoint RunRecovery::find(const std::string& run_dir, const std::string& run_id) {
    auto endpoint = Endpoint::read(run_dir);
    if (!endpoint)
        throw Error(ErrorKind::NoSuchRun, "there is no run to take over in " + run_dir + ": it has no file 'endpoint'",
                    remedy(Remedy::BeginRun));
    if (endpoint->names.run_id != run_id)
        throw ConfigError(
            "the run to take over in " + run_dir + " is '" + endpoint->names.run_id + "', not '" + run_id + "'",
            "Give its own id, " + endpoint->names.run_id);
    return *endpoint;
}

RunRecovery::RunRecovery(Layout layout) : layout_(std::move(layout)) {
    for (const ConsumerGroup& group : layout_.groups)
        memory_.push_back(RunMemory::adopt(layout_.names.of_group(group.name), layout_.layout, layout_.spans,
                                           layout_.consumer_capacity));
    // A death between two of them leaves their epochs apart.
    const std::uint32_t latest = std::ranges::max_element(memory_, {}, &RunMemory::epoch)->epoch();
    for (RunMemory& memory : memory_) memory.raise_epoch(latest);
}

void RunRecovery::take_up(const BatchNumbers& numbers, std::span<const std::shared_ptr<SpillStore>> spills) {
    count_last_publication(numbers);
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const ProgressLog progress(memory_[i].progress());
        ledgers_.push_back(SlabLedger::adopt(memory_[i].ledger(), epoch(), progress.last_step()));
    }
    require_same_generations();
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const ProgressLog progress(memory_[i].progress());
        predecessors_.push_back(read_predecessor(ledgers_[i], progress.totals(), layout_.names, layout_.spans, numbers,
                                                 i < spills.size() ? spills[i].get() : nullptr));
        require_conserved(predecessors_.back());
    }
    mark_last_losses();
    if (memory_.size() > 1) whole_ = whole();
}

// A publication that the first group counted, but not all of the others.
void RunRecovery::count_last_publication(const BatchNumbers& numbers) {
    const ProgressLog first(memory_.front().progress());
    const SlabLedger::LastStep step = first.last_step();
    if (step.kind != CountedStep::Publish || step.slab >= layout_.spans.slab_count) return;
    for (auto memory = memory_.begin() + 1; memory < memory_.end(); ++memory) {
        ProgressLog progress(memory->progress());
        const SlabWord word = SlabWord::unpack(load_word(memory->ledger().entries[step.slab].word));
        if (word.state != SlabState::Filling || word.generation != step.generation || progress.last_step() == step)
            continue;
        PublishedSlab slab = read_filled_slab(step.slab, word, epoch(), layout_.names, layout_.spans, numbers);
        slab.skipped = static_cast<std::uint32_t>(first.totals().skipped - progress.totals().skipped);
        progress.count(CountedStep::Publish, slab, step.generation);
    }
}

// The groups' ledgers pass through the same generations of a slab. A death while one was acquired or abandoned leaves
// them one apart.
void RunRecovery::require_same_generations() {
    if (ledgers_.size() == 1) return;
    for (std::uint32_t slab = 0; slab < layout_.spans.slab_count; ++slab) {
        const auto generation = [slab](const SlabLedger& ledger) { return ledger.word(slab).generation; };
        const auto is_free = [slab](const SlabLedger& ledger) { return ledger.word(slab).state == SlabState::Free; };
        if (std::ranges::all_of(ledgers_, is_free)) {
            const std::uint64_t latest = generation(*std::ranges::max_element(ledgers_, {}, generation));
            for (SlabLedger& ledger : ledgers_)
                if (generation(ledger) < latest) ledger.raise_generation(slab, latest);
            continue;
        }
        const SlabLedger& in_use = *std::ranges::find_if_not(ledgers_, is_free);
        for (const SlabLedger& ledger : ledgers_)
            if (generation(ledger) != generation(in_use) + (is_free(ledger) ? 1 : 0))
                throw ProtocolError("the run to take over is inconsistent: slab " + std::to_string(slab) +
                                        " has generation " + std::to_string(generation(ledger)) + " in one group and " +
                                        std::to_string(generation(in_use)) + " in another",
                                    remedy(Remedy::RunAgain));
    }
}

// A required group counted a slab as lost, and a death may have left that unmarked in the others. There, the slab may
// be on the disk, or may have come back from it under another number.
void RunRecovery::mark_last_losses() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const SlabLedger::LastStep step = ProgressLog(memory_[i].progress()).last_step();
        const bool loses = step.kind == CountedStep::DeadLetter || step.kind == CountedStep::Drop;
        if (!loses || layout_.groups[i].policy.optional) continue;
        for (std::size_t other = 0; other < predecessors_.size(); ++other) {
            for (const PublishedSlab& slab : predecessors_[other].in_flight)
                if (slab.filling == step.items_through) ledgers_[other].mark_lost(slab.slab);
            for (SpilledSlab& slab : predecessors_[other].spilled)
                if (slab.published.filling == step.items_through) SpillStore::mark_lost(slab.file);
        }
    }
}

Predecessor RunRecovery::whole() const {
    Predecessor whole;
    std::set<std::uint64_t> seen, lost;  // fillings
    SlabTotals dead_letters, dropped;
    const auto note = [&](const PublishedSlab& slab, bool is_lost) {
        if (seen.insert(slab.filling).second) whole.in_flight.push_back(slab);
        if (is_lost) lost.insert(slab.filling);
    };
    for (std::size_t i = 0; i < predecessors_.size(); ++i) {
        if (layout_.groups[i].policy.optional) continue;
        const Predecessor& group = predecessors_[i];
        for (const PublishedSlab& slab : group.in_flight) note(slab, ledgers_[i].is_lost(slab.slab));
        for (const SpilledSlab& slab : group.spilled) note(slab.published, slab.file.lost);
        dead_letters += group.totals.first_dead_letters;
        dropped += group.totals.first_dropped;
        whole.totals = group.totals;
    }
    whole.totals.dead_letters = dead_letters;
    whole.totals.published += whole.totals.dropped_waiting;
    whole.totals.published -= dropped;
    whole.totals.dropped = dropped.samples;
    whole.totals.completed = whole.totals.published;
    whole.totals.completed -= whole.totals.dead_letters;
    for (const PublishedSlab& slab : whole.in_flight)
        if (!lost.contains(slab.filling)) whole.totals.completed -= slab.totals();
    std::ranges::sort(whole.in_flight, {}, &PublishedSlab::items_through);
    return whole;
}

std::vector<std::unique_ptr<RunRecords>> RunRecovery::resume() && {
    expect(!ledgers_.empty(), "take_up() precedes resume()");
    ++memory_.front().progress().producers;
    spdlog::info(
        "taking over run '{}' as epoch {}: {} samples published through item {}, {} completed, {} slabs in flight",
        layout_.names.run_id, epoch(), predecessor().totals.published.samples, predecessor().totals.items_through,
        predecessor().totals.completed.samples, predecessor().in_flight.size());
    std::vector<std::unique_ptr<RunRecords>> records;
    for (std::size_t i = 0; i < memory_.size(); ++i)
        records.push_back(std::make_unique<RunRecords>(std::move(memory_[i]), ledgers_[i]));
    return records;
}

std::unique_ptr<SlabPool> RunRecovery::take_slabs(const RunNames& names, const SpanPlan& spans, SlabPool::Pin pin,
                                                  bool readable_by_group, SlabPool::Listener news) {
    return SlabPool::adopt(names, spans, std::move(pin), readable_by_group, std::move(news));
}

void RunRecovery::continue_in(Broker& broker, std::span<const Predecessor> predecessors) {
    std::vector<AdoptedSlabs> groups;
    for (const Predecessor& group : predecessors)
        groups.push_back({group.in_flight, group.dead_letters, group.spilled});
    broker.adopt(groups);
}

}  // namespace offramp
