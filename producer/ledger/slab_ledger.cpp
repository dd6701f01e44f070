#include "producer/ledger/slab_ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/remedy.hpp"

namespace offramp {

std::string_view to_string(ReleaseOutcome outcome) {
    static constexpr std::string_view kNames[] = {"completed", "holder-removed", "returned", "failed",
                                                  "foreign",   "stale",          "malformed"};
    return kNames[static_cast<std::size_t>(outcome)];
}

std::string_view to_string(SlabState state) {
    static constexpr std::string_view kNames[] = {"free", "filling", "ready", "leased", "retired", "dead_letters"};
    return static_cast<std::size_t>(state) < std::size(kNames) ? kNames[static_cast<std::size_t>(state)] : "?";
}

SlabLedger SlabLedger::format(Memory memory, std::uint32_t epoch) {
    expect(!memory.entries.empty() && memory.entries.size() <= kMaxSlabs, "1 to kMaxSlabs slabs");
    expect(!memory.consumers.empty() && memory.consumers.size() <= kMaxConsumers, "1 to kMaxConsumers consumers");
    for (LedgerConsumer& consumer : memory.consumers) consumer = {};
    for (SlabEntry& entry : memory.entries) {
        entry = {};
        store_word(entry.word, SlabWord{SlabState::Free, 0, 1}.pack());
    }
    return SlabLedger(memory, epoch);
}

// The lowest slab is last on the stack: the first span's memory is ready first.
SlabLedger::SlabLedger(Memory memory, std::uint32_t epoch)
    : memory_(memory), epoch_(epoch), next_session_(memory.first_session) {
    free_.reserve(memory.entries.size());
    for (std::uint32_t slab = slab_count(); slab-- > 0;) {
        const SlabState state = word(slab).state;
        ++counts_[static_cast<std::size_t>(state)];
        if (state == SlabState::Free) free_.push_back(slab);
    }
}

SlabLedger SlabLedger::adopt(Memory memory, std::uint32_t epoch, const LastStep& last) {
    check_ledger_words(memory.consumers, memory.entries);
    SlabLedger ledger(memory, epoch);
    std::uint64_t last_session = memory.first_session - 1;
    for (const LedgerConsumer& consumer : memory.consumers)
        last_session = std::max(last_session, load_word(consumer.session));
    ledger.take_counted_step(last);
    for (std::uint32_t slab = 0; slab < ledger.slab_count(); ++slab) {
        for (const HolderWord& holder : ledger.holders(slab)) last_session = std::max(last_session, holder.session);
        failpoint("ledger.adopt");
        ledger.repair(slab);
    }
    ledger.next_session_ = last_session + 1;
    return ledger;
}

// Changes no holders: one whose completion was counted repeats its release, and is then removed.
void SlabLedger::take_counted_step(const LastStep& last) {
    if (last.kind == CountedStep::None || last.slab >= slab_count()) return;
    const SlabWord found = word(last.slab);
    if (found.generation != last.generation) return;
    const bool in_flight = found.state == SlabState::Ready || found.state == SlabState::Leased;
    if (last.kind == CountedStep::Publish && found.state == SlabState::Filling)
        move_to(last.slab, found.state, SlabState::Ready);
    else if (last.kind == CountedStep::Complete && in_flight)
        move_to(last.slab, found.state, SlabState::Retired);
    else if (last.kind == CountedStep::DeadLetter && found.state == SlabState::Ready)
        move_to(last.slab, found.state, SlabState::DeadLettered);
    else if (last.kind == CountedStep::Drop && found.state == SlabState::Ready)
        vacate(last.slab);
}

void SlabLedger::repair(std::uint32_t slab) {
    const SlabWord found = word(slab);
    const auto held = holders(slab);
    switch (found.state) {
        case SlabState::Filling:
            abandon(slab);
            break;
        case SlabState::Ready:
            // A half-done lease has used up its attempt: no later delivery may have the same one.
            for (const HolderWord& holder : held)
                if (holder.attempt > found.attempt) store(slab, {SlabState::Ready, holder.attempt, found.generation});
            break;
        case SlabState::Leased:
            if (std::none_of(held.begin(), held.end(),
                             [&](const HolderWord& holder) { return holder.attempt == found.attempt; }))
                move_to(slab, SlabState::Leased, SlabState::Ready);
            break;
        case SlabState::Retired:
            if (held.empty()) free_slab(slab);
            break;
        default:
            break;
    }
}

// --- filling ---

std::optional<std::uint32_t> SlabLedger::acquire(const std::function<bool(std::uint32_t)>& usable) {
    // Only a pool that is still being created has slabs on the stack that are not usable yet.
    const auto found = std::find_if(free_.rbegin(), free_.rend(), usable);
    if (found == free_.rend()) return std::nullopt;
    const std::uint32_t slab = *found;
    free_.erase(std::next(found).base());
    move_to(slab, SlabState::Free, SlabState::Filling);
    failpoint("ledger.filling");
    return slab;
}

void SlabLedger::acquire_also(std::uint32_t slab) {
    const auto acquired = acquire([slab](std::uint32_t one) { return one == slab; });
    expect(acquired.has_value(), "the slab is free in this ledger, too");
}

bool SlabLedger::any_free(const std::function<bool(std::uint32_t)>& wanted) const {
    return std::any_of(free_.begin(), free_.end(), wanted);
}

void SlabLedger::abandon(std::uint32_t slab) {
    expect(word(slab).state == SlabState::Filling, "only a slab being filled is abandoned");
    failpoint("ledger.abandon");
    free_slab(slab);
}

void SlabLedger::publish(std::uint32_t slab) {
    failpoint("ledger.publish");
    move_to(slab, SlabState::Filling, SlabState::Ready);
    failpoint("ledger.ready");
}

// --- consumers ---

std::optional<ConsumerRef> SlabLedger::admit(std::uint64_t pid, std::uint64_t start_time, std::uint64_t uid,
                                             std::uint64_t token) {
    for (std::uint32_t consumer_index = 0; consumer_index < memory_.consumers.size(); ++consumer_index) {
        LedgerConsumer& entry = memory_.consumers[consumer_index];
        if (load_word(entry.session) != 0) continue;
        store_word(entry.pid, pid);
        store_word(entry.start_time, start_time);
        store_word(entry.uid, uid);
        store_word(entry.token, token);
        store_word(entry.session, next_session_);
        return ConsumerRef{consumer_index, next_session_++};
    }
    return std::nullopt;
}

std::vector<SlabLedger::Admitted> SlabLedger::admitted() const {
    std::vector<Admitted> found;
    for (std::uint32_t consumer_index = 0; consumer_index < memory_.consumers.size(); ++consumer_index) {
        const LedgerConsumer& entry = memory_.consumers[consumer_index];
        const std::uint64_t session = load_word(entry.session);
        if (session != 0)
            found.push_back({{consumer_index, session},
                             load_word(entry.pid),
                             load_word(entry.start_time),
                             load_word(entry.uid),
                             load_word(entry.token)});
    }
    return found;
}

// --- delivery ---

bool SlabLedger::can_lease(std::uint32_t slab, ConsumerRef consumer) const {
    if (word(slab).state != SlabState::Ready || word(slab).attempt >= kMaxAttempt || holds(slab, consumer))
        return false;
    const auto& holders = memory_.entries[slab].holders;
    return std::any_of(holders.begin(), holders.end(),
                       [](const std::uint64_t& holder) { return load_word(holder) == 0; });
}

SlabTicket SlabLedger::lease(std::uint32_t slab, ConsumerRef consumer) {
    expect(can_lease(slab, consumer), "the slab can be leased to this consumer");
    const SlabWord before = word(slab);
    const SlabWord after{SlabState::Leased, before.attempt + 1, before.generation};
    for (std::uint64_t& place : memory_.entries[slab].holders) {
        if (load_word(place) != 0) continue;
        store_word(place, HolderWord{true, after.attempt, consumer.consumer_index, consumer.session}.pack());
        break;
    }
    failpoint("ledger.lease.holder_stored");
    store(slab, after);
    failpoint("ledger.leased");
    return {.epoch = epoch_, .slab = slab, .generation = after.generation, .attempt = after.attempt};
}

void SlabLedger::take_back(const SlabTicket& ticket, ConsumerRef consumer) {
    std::uint64_t* place = holder_word(ticket.slab, consumer);
    expect(place != nullptr, "the ticket's consumer is recorded as a holder");
    store_word(*place, 0);
    normalise_after_holder_left(ticket.slab, ticket.attempt);
}

void SlabLedger::expire(std::uint32_t slab) {
    failpoint("ledger.expire");
    move_to(slab, SlabState::Leased, SlabState::Ready);
}

ReleaseOutcome SlabLedger::release(ConsumerRef consumer, const SlabTicket& ticket, ReleaseKind kind,
                                   const std::function<void()>& before_completing) {
    if (ticket.slab >= slab_count() || kind < ReleaseKind::Completed || kind > ReleaseKind::Rejected)
        return ReleaseOutcome::Malformed;
    const SlabWord current = word(ticket.slab);
    if (ticket.generation != current.generation) return ReleaseOutcome::Stale;
    std::uint64_t* place = holder_word(ticket.slab, consumer);
    if (place == nullptr || HolderWord::unpack(load_word(*place)).attempt != ticket.attempt)
        return ReleaseOutcome::Foreign;

    if (kind == ReleaseKind::Completed && (current.state == SlabState::Leased || current.state == SlabState::Ready)) {
        if (before_completing) before_completing();
        failpoint("ledger.complete");
        move_to(ticket.slab, current.state, SlabState::Retired);
        failpoint("ledger.complete.retired");
        store_word(*place, 0);
        failpoint("ledger.complete.holder_cleared");
        if (!has_holders(ticket.slab)) free_slab(ticket.slab);
        return ReleaseOutcome::Completed;
    }
    if (is_failure(kind)) {
        store_word(memory_.entries[ticket.slab].failures, failures(ticket.slab) + 1);
        failpoint("ledger.fail.counted");
    }
    store_word(*place, 0);
    failpoint("ledger.return.holder_cleared");
    normalise_after_holder_left(ticket.slab, ticket.attempt);
    const bool ready_again = current.state == SlabState::Leased && word(ticket.slab).state == SlabState::Ready;
    if (kind == ReleaseKind::Completed || !ready_again) return ReleaseOutcome::HolderRemoved;
    return is_failure(kind) ? ReleaseOutcome::Failed : ReleaseOutcome::Returned;
}

std::vector<SlabLedger::Revoked> SlabLedger::revoke(ConsumerRef consumer, std::uint64_t work_word) {
    std::vector<Revoked> revoked;
    const WorkWord work = WorkWord::unpack(work_word);
    for (std::uint32_t slab = 0; slab < slab_count(); ++slab) {
        std::uint64_t* place = holder_word(slab, consumer);
        if (place == nullptr) continue;
        const HolderWord holder = HolderWord::unpack(load_word(*place));
        const SlabWord current = word(slab);
        const bool counted =
            work_word != 0 && work == WorkWord{slab, holder.attempt, static_cast<std::uint32_t>(current.generation)};
        // Count the failure first: it must survive a death of the producer here.
        if (counted) store_word(memory_.entries[slab].failures, failures(slab) + 1);
        failpoint("ledger.revoke.counted");
        store_word(*place, 0);
        failpoint("ledger.revoke.holder_cleared");
        normalise_after_holder_left(slab, holder.attempt);
        revoked.push_back({slab, counted, current.state == SlabState::Leased && word(slab).state == SlabState::Ready,
                           holder.attempt});
    }
    store_word(memory_.consumers[consumer.consumer_index].session, 0);
    return revoked;
}

// --- dead letters ---

void SlabLedger::dead_letter(std::uint32_t slab) {
    failpoint("ledger.dead_letter");
    move_to(slab, SlabState::Ready, SlabState::DeadLettered);
}

void SlabLedger::discard(std::uint32_t slab) {
    move_to(slab, SlabState::DeadLettered, SlabState::Retired);
    if (!has_holders(slab)) free_slab(slab);
}

// --- several groups over the same slabs ---

void SlabLedger::raise_generation(std::uint32_t slab, std::uint64_t generation) {
    const SlabWord found = word(slab);
    expect(found.state == SlabState::Free && generation > found.generation, "a free slab, and a later generation");
    store_word(memory_.entries[slab].word, SlabWord{SlabState::Free, 0, generation}.pack());
}

void SlabLedger::pass_over(std::uint32_t slab) {
    raise_generation(slab, word(slab).generation + 1);
    failpoint("ledger.passed_over");
}

void SlabLedger::mark_lost(std::uint32_t slab) {
    failpoint("ledger.lost");
    store_word(memory_.entries[slab].lost, word(slab).generation);
}

bool SlabLedger::is_lost(std::uint32_t slab) const {
    return load_word(memory_.entries[slab].lost) == word(slab).generation;
}

// --- no free slab ---

void SlabLedger::vacate(std::uint32_t slab) {
    expect(word(slab).state == SlabState::Ready && !has_holders(slab), "a Ready slab without holders");
    failpoint("ledger.vacate");
    free_slab(slab);
}

// --- looking ---

SlabWord SlabLedger::word(std::uint32_t slab) const {
    expect(slab < slab_count(), "a slab of this ledger");
    return SlabWord::unpack(load_word(memory_.entries[slab].word));
}

std::uint64_t SlabLedger::failures(std::uint32_t slab) const { return load_word(memory_.entries[slab].failures); }

std::vector<HolderWord> SlabLedger::holders(std::uint32_t slab) const {
    std::vector<HolderWord> found;
    for (const std::uint64_t& place : memory_.entries[slab].holders)
        if (const HolderWord holder = HolderWord::unpack(load_word(place)); holder.used) found.push_back(holder);
    return found;
}

bool SlabLedger::holds(std::uint32_t slab, ConsumerRef consumer) const {
    return holder_word(slab, consumer) != nullptr;
}

// --- steps ---

void SlabLedger::store(std::uint32_t slab, SlabWord after) {
    const SlabState before = word(slab).state;
    store_word(memory_.entries[slab].word, after.pack());
    --counts_[static_cast<std::size_t>(before)];
    ++counts_[static_cast<std::size_t>(after.state)];
    if (after.state == SlabState::Free) free_.push_back(slab);
}

void SlabLedger::move_to(std::uint32_t slab, SlabState from, SlabState to) {
    const SlabWord before = word(slab);
    expect(before.state == from, "the slab is in the state that this transition starts from");
    store(slab, {to, before.attempt, before.generation});
}

// Starts the next generation, which invalidates all earlier tickets.
void SlabLedger::free_slab(std::uint32_t slab) {
    expect(!has_holders(slab), "a slab without holders");
    const SlabWord before = word(slab);
    store_word(memory_.entries[slab].failures, 0);
    failpoint("ledger.free");
    store(slab, {SlabState::Free, 0, before.generation + 1});
}

bool SlabLedger::has_holders(std::uint32_t slab) const {
    const auto& holders = memory_.entries[slab].holders;
    return std::any_of(holders.begin(), holders.end(),
                       [](const std::uint64_t& holder) { return load_word(holder) != 0; });
}

std::uint64_t* SlabLedger::holder_word(std::uint32_t slab, ConsumerRef consumer) const {
    for (std::uint64_t& place : memory_.entries[slab].holders) {
        const HolderWord holder = HolderWord::unpack(load_word(place));
        if (holder.used && holder.consumer_index == consumer.consumer_index && holder.session == consumer.session)
            return &place;
    }
    return nullptr;
}

// A holder left without completing the slab. If it had the current delivery, the slab is Ready again; the last holder
// of a finished slab frees it.
void SlabLedger::normalise_after_holder_left(std::uint32_t slab, std::uint32_t its_attempt) {
    const SlabWord current = word(slab);
    if (current.state == SlabState::Leased && current.attempt == its_attempt)
        move_to(slab, SlabState::Leased, SlabState::Ready);
    else if (current.state == SlabState::Retired && !has_holders(slab))
        free_slab(slab);
}

namespace {

constexpr std::uint64_t kMostSession = (std::uint64_t{1} << 40) - 1;  // the range of a holder word's session

void require(bool holds, const char* of, std::size_t index, const char* field, std::uint64_t found,
             const std::string& wanted) {
    if (!holds)
        throw ProtocolError("ledger: " + std::string(of) + " " + std::to_string(index) + ": " + field + " is " +
                                std::to_string(found) + ", expected " + wanted,
                            "Another process wrote to its memory. " + remedy(Remedy::RunAgain));
}

void check_entry(std::size_t slab, const SlabEntry& entry, std::size_t consumer_capacity) {
    const SlabWord word = SlabWord::unpack(load_word(entry.word));
    const auto state = static_cast<std::uint64_t>(word.state);
    require(state < kSlabStates, "slab", slab, "state", state, "0 to " + std::to_string(kSlabStates - 1));
    const bool may_be_held = word.state != SlabState::Free && word.state != SlabState::Filling;
    for (const std::uint64_t& place : entry.holders) {
        const std::uint64_t found = load_word(place);
        if (found == 0) continue;
        const HolderWord holder = HolderWord::unpack(found);
        require(holder.used && may_be_held, "slab", slab, "a holder's word", found, "0, as it cannot be held");
        require(holder.consumer_index < consumer_capacity, "slab", slab, "a holder's consumer index",
                holder.consumer_index, "below " + std::to_string(consumer_capacity));
    }
}

}  // namespace

void check_ledger_words(std::span<const LedgerConsumer> consumers, std::span<const SlabEntry> entries) {
    for (std::size_t index = 0; index < consumers.size(); ++index) {
        const std::uint64_t session = load_word(consumers[index].session);
        require(session <= kMostSession, "consumer", index, "session", session,
                "at most " + std::to_string(kMostSession));
    }
    for (std::size_t slab = 0; slab < entries.size(); ++slab) check_entry(slab, entries[slab], consumers.size());
}

}  // namespace offramp
