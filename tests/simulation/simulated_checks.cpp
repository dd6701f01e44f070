// What holds after every step of a simulated run, and at its end.

#include "tests/simulation/simulated_run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/dead_letters/payload_file.hpp"
#include "tests/simulation/simulated_consumer.hpp"
#include "tests/simulation/simulated_producer.hpp"

namespace offramp::simulation {

// --- what became of the batches ---

std::optional<std::uint64_t> SimulatedRun::batch_in(std::uint32_t slab, std::uint64_t generation) const {
    if (slab >= contents_.size() || contents_[slab].generation != generation) return std::nullopt;
    return contents_[slab].batch;
}

std::string SimulatedRun::in_group(std::uint32_t group) const {
    return groups() == 1 ? "" : " in group " + groups_[group].name;
}

bool SimulatedRun::is_completed(const Batch& batch) const {
    for (std::uint32_t group = 0; group < groups(); ++group)
        if (!is_optional(group) && !batch.shares[group].completed) return false;
    return true;
}

bool SimulatedRun::is_free(std::uint32_t slab) const {
    for (std::uint32_t group = 0; group < groups(); ++group)
        if (producer_->ledger(group).word(slab).state != SlabState::Free) return false;
    return true;
}

bool SimulatedRun::is_open(std::uint32_t group, const Batch& batch) const {
    return batch.shares[group].published && !batch.shares[group].over();
}

// Without a consumer that has it, in a group that drops.
bool SimulatedRun::may_lose(std::uint32_t group, std::uint32_t slab) const {
    const SlabLedger& ledger = producer_->ledger(group);
    return groups_[group].policy.drops_oldest() && ledger.word(slab).state == SlabState::Ready &&
           ledger.holders(slab).empty();
}

// No process counts two steps of a group between two failpoints.
void SimulatedRun::note_counts() {
    note_read_back();
    for (std::uint32_t group = 0; group < groups(); ++group) {
        const RunProgress& progress = shared_.memory(group).progress();
        if (progress.current == noted_[group]) continue;
        if (progress.current != noted_[group] + 1)
            throw Violation(fmt::format("step {}{} follows step {}", progress.current, in_group(group), noted_[group]));
        noted_[group] = progress.current;
        note_step(group, progress.records[progress.current & 1]);
    }
}

void SimulatedRun::note_step(std::uint32_t group, const ProgressRecord& record) {
    const auto number = batch_in(static_cast<std::uint32_t>(record.slab), record.generation);
    if (!number)
        throw Violation(fmt::format("a step of slab {}{} is not of its filling", record.slab, in_group(group)));
    const auto fail = [&](const std::string& what) {
        throw Violation(fmt::format("batch {} {}{}", *number, what, in_group(group)));
    };
    GroupShare& share = batches_[*number].shares[group];
    const auto step = static_cast<CountedStep>(record.step);
    if (step != CountedStep::Publish && !share.published) fail("is over before it is published");
    if (share.over()) fail("is over twice");
    switch (step) {
        case CountedStep::Publish:
            if (std::exchange(share.published, true)) fail("is published twice");
            share.slab = static_cast<std::uint32_t>(record.slab);
            share.generation = record.generation;
            break;
        case CountedStep::Complete:
            if (share.commits == 0) fail("is completed, and no consumer processed it");
            share.completed = true;
            break;
        case CountedStep::DeadLetter:
            if (!share.rejected && share.blame < setup_.max_failures)
                fail(fmt::format("is a dead letter after {} failures", share.blame));
            share.dead_letter = true;
            note_loss(group, step, batches_[*number]);
            break;
        case CountedStep::Drop:
            note_drop(group, record, *number);
            break;
        case CountedStep::None:
            fail("has a step of no kind");
    }
}

void SimulatedRun::note_loss(std::uint32_t group, CountedStep step, Batch& batch) {
    if (is_optional(group) || batch.is_lost()) return;
    for (const GroupShare& share : batch.shares) counts_.lost_files += share.on_disk ? 1 : 0;
    batch.lost_by = step;
    batch.lost_in = epoch_;
}

void SimulatedRun::on_listed(std::uint32_t group, std::uint64_t number) {
    if (batches_.at(number).is_lost())
        throw Violation(fmt::format("batch {} is listed{}, though it is lost already", number, in_group(group)));
    listing_.emplace(group, number);
}

// The oldest waiting slab, listed by the first group that loses it, and only while none is free.
void SimulatedRun::note_drop(std::uint32_t group, const ProgressRecord& record, std::uint64_t number) {
    const auto fail = [&](const std::string& what) {
        throw Violation(fmt::format("batch {} is dropped{}, {}", number, in_group(group), what));
    };
    Batch& batch = batches_[number];
    batch.shares[group].dropped = true;
    ++(is_optional(group) ? counts_.optional_drops : groups() > 1 ? counts_.group_drops : counts_.oldest_drops);
    if (trace_) say(fmt::format("batch {} is dropped{}", number, in_group(group)));
    if (!groups_[group].policy.drops_oldest()) fail("though the run waits for it");
    if (!is_optional(group) && !producer_->waiting.valid()) fail("though the producer does not wait for a slab");
    const auto listed = std::exchange(listing_, std::nullopt);
    if (!is_optional(group) && !batch.is_lost() && listed != std::pair(group, number)) fail("and not listed");
    note_loss(group, CountedStep::Drop, batch);
    const bool required_are_done = is_optional(group) && std::ranges::all_of(batches_, [this](const Batch& each) {
                                       return !is_open(0, each) && !is_open(1, each);
                                   });
    if (required_are_done || aborting_) return;
    for (std::uint32_t other = 0; other < groups(); ++other)
        if (other != group && !may_lose(other, static_cast<std::uint32_t>(record.slab)) &&
            producer_->ledger(other).word(static_cast<std::uint32_t>(record.slab)).state != SlabState::Free)
            fail(fmt::format("though it is in use{}", in_group(other)));
    for (std::uint32_t slab = 0; slab < setup_.slabs; ++slab) {
        if (is_free(slab)) fail(fmt::format("though slab {} is free", slab));
        const SlabLedger& ledger = producer_->ledger(group);
        const SlabWord word = ledger.word(slab);
        bool waits = slab != record.slab && word.state == SlabState::Ready && ledger.holders(slab).empty();
        for (std::uint32_t other = 0; other < groups(); ++other)
            waits = waits && (other == group || producer_->ledger(other).word(slab).state == SlabState::Free);
        if (waits && contents_[slab].batch < number) fail(fmt::format("though batch {} waits", contents_[slab].batch));
    }
}

void SimulatedRun::on_completed(std::uint64_t number) {
    note_counts();
    Batch& batch = batches_.at(number);
    if (!is_completed(batch)) throw Violation(fmt::format("batch {} is completed, but not in every group", number));
    if (std::exchange(batch.completed, true)) throw Violation(fmt::format("batch {} is completed twice", number));
    if (batch.dead_letter || batch.is_lost()) throw Violation(fmt::format("batch {} is completed and lost", number));
    ++counts_.completed;
    if (trace_) say(fmt::format("batch {} is completed", number));
}

void SimulatedRun::on_dead_letter(std::uint64_t number) {
    note_counts();
    Batch& batch = batches_.at(number);
    if (batch.lost_by != CountedStep::DeadLetter)
        throw Violation(fmt::format("batch {} is a dead letter, but in no group first", number));
    if (std::exchange(batch.dead_letter, true)) throw Violation(fmt::format("batch {} is a dead letter twice", number));
    if (batch.completed) throw Violation(fmt::format("batch {} is completed and a dead letter", number));
    ++counts_.dead_letters;
    if (trace_) say(fmt::format("batch {} is a dead letter", number));
}

void SimulatedRun::note_delivery(std::uint32_t group, const SlabTicket& ticket) {
    if (ticket.attempt > 1) ++counts_.redeliveries;
    for (const auto& [other, before] : delivered_)
        if (other == group && before.slab == ticket.slab && before.generation == ticket.generation &&
            before.attempt == ticket.attempt)
            throw Violation(
                fmt::format("delivery {} of slab {} was begun twice{}", ticket.attempt, ticket.slab, in_group(group)));
    delivered_.emplace_back(group, ticket);
}

void SimulatedRun::check_bytes(std::uint32_t slab, std::uint64_t batch, const std::string& reader) const {
    check_payload(shared_.slab(slab).data() + shared_.layout().header_bytes, batch,
                  reader + " in slab " + std::to_string(slab));
}

void SimulatedRun::check_payload(const std::byte* payload, std::uint64_t batch, const std::string& reader) {
    for (std::size_t i = 0; i < kPayloadWords; ++i) {
        std::uint64_t found = 0;
        std::memcpy(&found, payload + i * sizeof found, sizeof found);
        if (found != payload_word(batch, i))
            throw Violation(fmt::format("{} has batch {}, and its bytes changed", reader, batch));
    }
}

// --- the checks ---

void SimulatedRun::check() {
    for (const auto& consumer : consumers_) consumer->check();
    for (std::uint32_t group = 0; group < groups(); ++group) {
        const SlabLedger::Memory memory = shared_.memory(group).ledger();
        for (std::size_t slab = 0; slab < memory.entries.size(); ++slab) check_entry(memory, slab);
    }
}

void SimulatedRun::check_entry(const SlabLedger::Memory& memory, std::size_t slab) {
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

// Between two steps of the broker, the progress records and the slabs agree, and the run knows what became of each
// batch.
void SimulatedRun::check_conservation() {
    for (std::uint32_t group = 0; group < groups(); ++group) {
        const ProgressRecord totals = ProgressLog(shared_.memory(group).progress()).totals();
        const std::uint64_t in_flight = check_places(group);
        if (totals.published.samples != totals.completed.samples + totals.dead_letters.samples + in_flight)
            throw Violation(fmt::format("{} samples are published{}, {} completed, {} dead letters and {} in flight",
                                        totals.published.samples, in_group(group), totals.completed.samples,
                                        totals.dead_letters.samples, in_flight));
    }
    check_fates();
}

void SimulatedRun::check_fates() const {
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        const Batch& batch = batches_[number];
        if (batch.completed != is_completed(batch))
            throw Violation(fmt::format("batch {} is completed in every required group, and not in the run", number));
        if (batch.dead_letter != (batch.lost_by == CountedStep::DeadLetter))
            throw Violation(fmt::format("batch {} is a dead letter in a group first, and not in the run", number));
        for (std::uint32_t group = 0; group < groups(); ++group) {
            const GroupShare& share = batch.shares[group];
            if (share.published != batch.shares[0].published)
                throw Violation(fmt::format("batch {} is not published{}", number, in_group(group)));
            if (!setup_.keeps_letters || !share.dead_letter || share.letter != GroupShare::Letter::None) continue;
            const SlabWord word = producer_->ledger(group).word(share.slab);
            if (word.state != SlabState::DeadLettered || word.generation != share.generation)
                throw Violation(fmt::format("slab {} is {}, and its dead letter{} is not written", share.slab,
                                            to_string(word.state), in_group(group)));
        }
    }
}

// What the next producer learns of the run as a whole: the batches that wait for a required group, and the totals.
void SimulatedRun::check_predecessor(const RunRecovery& recovery) const {
    const Predecessor& predecessor = recovery.predecessor();
    std::uint64_t waiting = 0, completed = 0, lost = 0, published = 0, dropped = 0;
    const auto open = [this](const Batch& batch) {
        for (std::uint32_t group = 0; group < groups(); ++group)
            if (!is_optional(group) && is_open(group, batch)) return true;
        return false;
    };
    for (std::uint32_t group = 0; group < groups(); ++group) {
        const Predecessor& its = recovery.by_group()[group];
        const auto left = std::ranges::count_if(batches_, [&](const Batch& batch) { return is_open(group, batch); });
        if (its.in_flight.size() + its.spilled.size() != static_cast<std::size_t>(left))
            throw Violation(
                fmt::format("{} batches are left{}, the next producer finds {} in memory and {} on the disk", left,
                            in_group(group), its.in_flight.size(), its.spilled.size()));
    }
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        waiting += open(batches_[number]) ? 1 : 0;
        completed += batches_[number].completed ? samples_of(number) : 0;
        lost += batches_[number].dead_letter ? samples_of(number) : 0;
        const bool is_dropped = batches_[number].lost_by == CountedStep::Drop;
        dropped += is_dropped ? samples_of(number) : 0;
        published += batches_[number].shares[0].published && !is_dropped ? samples_of(number) : 0;
    }
    const auto check_open = [&](const PublishedSlab& slab) {
        if (!open(batches_.at(slab.first_batch)))
            throw Violation(fmt::format("batch {} is over, and waits for the next producer", slab.first_batch));
    };
    std::ranges::for_each(predecessor.in_flight, check_open);
    for (const SpilledSlab& slab : predecessor.spilled) check_open(slab.published);
    if (predecessor.in_flight.size() + predecessor.spilled.size() != waiting)
        throw Violation(fmt::format("{} batches wait, the next producer learns of {} and {} on the disk", waiting,
                                    predecessor.in_flight.size(), predecessor.spilled.size()));
    const ProgressRecord& totals = predecessor.totals;
    if (totals.completed.samples != completed || totals.dead_letters.samples != lost)
        throw Violation(fmt::format("{} samples were completed and {} lost, the next producer counts {} and {}",
                                    completed, lost, totals.completed.samples, totals.dead_letters.samples));
    if (totals.published.samples != published || (groups() > 1 && totals.dropped != dropped))
        throw Violation(fmt::format("{} samples were published and {} dropped, the next producer counts {} and {}",
                                    published, dropped, totals.published.samples, totals.dropped));
}

// Each dead letter is on the disk with the bytes of its batch, unless the disk refused it.
void SimulatedRun::check_letters() const {
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        for (std::uint32_t group = 0; group < groups(); ++group) {
            if (batches_[number].shares[group].letter != GroupShare::Letter::Written) continue;
            const std::string stem = SimulatedLetters::stem(producer_->groups[group]->letters->folder(), number);
            if (!std::filesystem::exists(stem + ".json"))
                throw Violation(fmt::format("the letter of batch {}{} has no report", number, in_group(group)));
            const PayloadFile file(stem + ".safetensors");
            if (file.slab().batches.front().batch != number)
                throw Violation(fmt::format("the letter of batch {} is another's", number));
            check_payload(file.slab().tensors.front().bytes.data(), number, "the letter");
        }
    }
}

void SimulatedRun::check_end() {
    counts_.full_disks += take_refused_writes();
    counts_.published += ProgressLog(shared_.memory(0).progress()).totals().published.slabs;
    for (std::uint32_t group = 0; group < groups(); ++group) check_end(group);
    for (std::uint32_t group = 0; group < groups(); ++group)
        if (spills(group)) check_files(group);
    check_fates();
    if (setup_.keeps_letters && !closed_early_) check_letters();
    const BrokerReport report = producer_->broker->report();
    std::uint64_t completed = 0, dead = 0, dropped = 0;
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        const Batch& batch = batches_[number];
        completed += batch.completed ? samples_of(number) : 0;
        dead += batch.dead_letter ? samples_of(number) : 0;
        dropped += batch.lost_by == CountedStep::Drop && batch.lost_in == epoch_ ? samples_of(number) : 0;
        if (!aborting_ && !batch.completed && !batch.is_lost() && !batch.dropped)
            throw Violation(fmt::format("batch {} is lost", number));
        if (groups() == 1 || !batch.dead_letter) continue;
        counts_.lost_by_one += batch.shares[0].completed || batch.shares[1].completed ? 1 : 0;
    }
    if (report.completed.samples != completed || report.dead_lettered.samples != dead)
        throw Violation(fmt::format("{} samples were completed and {} lost, the run reports {} and {}", completed, dead,
                                    report.completed.samples, report.dead_lettered.samples));
    if (groups() > 1 && report.dropped.samples != dropped)
        throw Violation(fmt::format("{} samples were dropped by the last producer, the run reports {}", dropped,
                                    report.dropped.samples));
}

void SimulatedRun::check_end(std::uint32_t group) const {
    const ProgressRecord totals = ProgressLog(shared_.memory(group).progress()).totals();
    if (totals.published.samples + totals.skipped + totals.dropped != totals.items_through)
        throw Violation(fmt::format("{} items are through{}, {} published, {} skipped, {} dropped",
                                    totals.items_through, in_group(group), totals.published.samples, totals.skipped,
                                    totals.dropped));
    std::uint64_t completed = 0, dead = 0, dropped = 0;
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        const GroupShare& share = batches_[number].shares[group];
        completed += share.completed ? samples_of(number) : 0;
        dead += share.dead_letter ? samples_of(number) : 0;
        dropped += share.dropped ? samples_of(number) : 0;
        if (!aborting_ && !closed_early_ && !share.over() && !batches_[number].dropped)
            throw Violation(fmt::format("batch {} is lost{}", number, in_group(group)));
    }
    if (completed != totals.completed.samples || dead != totals.dead_letters.samples)
        throw Violation(fmt::format("{} samples were completed{} and {} became dead letters, but {} and {} are counted",
                                    completed, in_group(group), dead, totals.completed.samples,
                                    totals.dead_letters.samples));
    if (groups() > 1 && dropped != producer_->broker->report().groups[group].dropped.samples)
        throw Violation(fmt::format("{} samples were dropped{}, the run reports {}", dropped, in_group(group),
                                    producer_->broker->report().groups[group].dropped.samples));
    for (std::uint32_t slab = 0; slab < setup_.slabs && !closed_early_; ++slab) {
        const SlabState state = producer_->ledger(group).word(slab).state;
        const bool may_wait = aborting_ && (state == SlabState::Ready || state == SlabState::Leased);
        if (!producer_->ledger(group).holders(slab).empty())
            throw Violation(fmt::format("slab {} is held at the end{}", slab, in_group(group)));
        if (state != SlabState::Free && !may_wait)
            throw Violation(fmt::format("slab {} is {} at the end{}", slab, to_string(state), in_group(group)));
    }
}

}  // namespace offramp::simulation
