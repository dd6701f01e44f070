// Random histories, checked against a second, independent record of the holders.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/unit/ledger/ledger_fixture.hpp"

namespace offramp {
namespace {

// An outside observer's record: the tickets handed out, and the fate of each filling.
class Observer {
  public:
    explicit Observer(LedgerFixture& fixture) : f_(fixture) {}

    void step() {
        switch (*rc::gen::inRange(0, 11)) {
            case 0:
                acquire();
                break;
            case 1:
                publish();
                break;
            case 2:
                abandon();
                break;
            case 3:
            case 4:
                lease();
                break;
            case 5:
                expire();
                break;
            case 6:
                release(ReleaseKind::Completed);
                break;
            case 7:
                release(ReleaseKind::Returned);
                break;
            case 8:
                die_and_return();
                break;
            case 9:
                give_up();
                break;
            case 10:
                replay();
                break;
        }
        check();
    }

  private:
    SlabLedger& ledger() { return *f_.ledger; }

    void acquire() {
        const auto slab = ledger().acquire([](std::uint32_t) { return true; });
        if (!slab) return;
        RC_ASSERT(filling_.insert(*slab).second);  // no other writer
        RC_ASSERT(held_[*slab].empty());           // and no reader
    }
    void publish() {
        if (filling_.empty()) return;
        const std::uint32_t slab = *rc::gen::elementOf(std::vector(filling_.begin(), filling_.end()));
        ledger().publish(slab);
        filling_.erase(slab);
        ++published_;
    }
    void abandon() {
        if (filling_.empty()) return;
        const std::uint32_t slab = *rc::gen::elementOf(std::vector(filling_.begin(), filling_.end()));
        ledger().abandon(slab);
        filling_.erase(slab);
    }
    void lease() {
        const auto slab = *rc::gen::inRange(0U, ledger().slab_count());
        const auto who = *rc::gen::elementOf(f_.admitted);
        if (!ledger().can_lease(slab, who)) return;
        const SlabTicket ticket = ledger().lease(slab, who);
        RC_ASSERT(held_[slab].emplace(who.session, ticket).second);
        seen_.push_back({who, ticket});
    }
    void expire() {
        const auto slab = *rc::gen::inRange(0U, ledger().slab_count());
        if (ledger().word(slab).state == SlabState::Leased) ledger().expire(slab);
    }
    void release(ReleaseKind kind) {
        const auto hold = any_hold();
        if (!hold) return;
        const auto& [who, ticket] = *hold;
        const SlabWord before = ledger().word(ticket.slab);
        const ReleaseOutcome outcome = ledger().release(who, ticket, kind);
        const bool wanted = before.state == SlabState::Leased || before.state == SlabState::Ready;
        if (kind == ReleaseKind::Completed)
            RC_ASSERT((outcome == ReleaseOutcome::Completed) == wanted);
        else
            RC_ASSERT(outcome == ReleaseOutcome::Returned || outcome == ReleaseOutcome::HolderRemoved);
        if (outcome == ReleaseOutcome::Completed) ++completed_;
        held_[ticket.slab].erase(who.session);
    }
    void die_and_return() {
        const auto index = *rc::gen::inRange(std::size_t{0}, f_.admitted.size());
        const ConsumerRef who = f_.admitted[index];
        const auto hold = any_hold();
        std::uint64_t work = 0;
        if (hold && hold->first == who)
            work =
                WorkWord{hold->second.slab, hold->second.attempt, static_cast<std::uint32_t>(hold->second.generation)}
                    .pack();
        int counted = 0;
        for (const auto& revoked : ledger().revoke(who, work)) {
            counted += revoked.counted ? 1 : 0;
            RC_ASSERT(held_[revoked.slab].erase(who.session) == 1U);
        }
        RC_ASSERT(counted == (work != 0 ? 1 : 0));  // one death, at most one suspect
        f_.admitted[index] = *ledger().admit(who.session + 1000, 1, 0, who.session);
    }
    void give_up() {
        const auto slab = *rc::gen::inRange(0U, ledger().slab_count());
        if (ledger().word(slab).state != SlabState::Ready) return;
        ledger().dead_letter(slab);
        ledger().discard(slab);
        ++dead_lettered_;
    }
    // Any ticket ever issued, from any session: only the holder's current one, with this generation and its attempt,
    // may have an effect.
    void replay() {
        if (seen_.empty()) return;
        const auto& [owner, ticket] = *rc::gen::elementOf(seen_);
        const auto who = *rc::gen::element(owner, f_.admitted.front());
        const auto own = held_[ticket.slab].find(who.session);
        if (own != held_[ticket.slab].end() && own->second == ticket) return;
        const std::vector<SlabEntry> before = f_.entries;
        const ReleaseOutcome outcome = ledger().release(who, ticket, ReleaseKind::Completed);
        RC_ASSERT(outcome == ReleaseOutcome::Stale || outcome == ReleaseOutcome::Foreign);
        for (std::size_t i = 0; i < before.size(); ++i) {
            RC_ASSERT(before[i].word == f_.entries[i].word);
            RC_ASSERT(before[i].holders == f_.entries[i].holders);
        }
    }

    std::optional<std::pair<ConsumerRef, SlabTicket>> any_hold() {
        std::vector<std::pair<ConsumerRef, SlabTicket>> all;
        for (const auto& [slab, holds] : held_)
            for (const auto& who : f_.admitted)
                if (const auto hold = holds.find(who.session); hold != holds.end()) all.push_back({who, hold->second});
        if (all.empty()) return std::nullopt;
        return *rc::gen::elementOf(all);
    }

    void check() {
        std::uint64_t in_flight = 0;
        for (std::uint32_t slab = 0; slab < ledger().slab_count(); ++slab) {
            const SlabWord word = ledger().word(slab);
            RC_ASSERT((word.state == SlabState::Filling) == (filling_.count(slab) == 1));
            if (word.state == SlabState::Free || word.state == SlabState::Filling)
                RC_ASSERT(held_[slab].empty());  // memory is written only without a reader
            RC_ASSERT(ledger().holders(slab).size() == held_[slab].size());
            RC_ASSERT(word.generation >= generations_[slab]);
            generations_[slab] = word.generation;
            if (word.state == SlabState::Ready || word.state == SlabState::Leased) ++in_flight;
        }
        RC_ASSERT(published_ == completed_ + in_flight + dead_lettered_);
        // A next producer that adopts this state loses no hold and invents none.
        std::vector<SlabEntry> entries = f_.entries;
        std::vector<LedgerConsumer> consumer_table = f_.consumer_table;
        const auto adopted = SlabLedger::adopt({consumer_table, entries}, 2);
        for (std::uint32_t slab = 0; slab < ledger().slab_count(); ++slab) {
            RC_ASSERT(adopted.holders(slab).size() == held_[slab].size());
            if (ledger().word(slab).state != SlabState::Filling) RC_ASSERT(adopted.word(slab) == ledger().word(slab));
        }
    }

    LedgerFixture& f_;
    std::set<std::uint32_t> filling_;
    std::map<std::uint32_t, std::map<std::uint64_t, SlabTicket>> held_;  // slab → session → ticket
    std::vector<std::pair<ConsumerRef, SlabTicket>> seen_;
    std::map<std::uint32_t, std::uint64_t> generations_;
    std::uint64_t published_ = 0, completed_ = 0, dead_lettered_ = 0;
};

RC_GTEST_PROP(SlabLedgerHistories, KeepOneWriterFencingAndConservation, ()) {
    LedgerFixture fixture(3, 4);
    Observer observer(fixture);
    const int steps = *rc::gen::inRange(1, 120);
    for (int i = 0; i < steps; ++i) observer.step();
}

}  // namespace
}  // namespace offramp
