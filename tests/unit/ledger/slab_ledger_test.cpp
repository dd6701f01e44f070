#include "producer/ledger/slab_ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/unit/ledger/ledger_fixture.hpp"

namespace offramp {
namespace {

const auto kAny = [](std::uint32_t) { return true; };

TEST(SlabLedger, EverySlabStartsFreeInGenerationOne) {
    LedgerFixture f(5);
    EXPECT_EQ(f.ledger->count(SlabState::Free), 5U);
    for (std::uint32_t slab = 0; slab < 5; ++slab) EXPECT_EQ(f.ledger->word(slab), (SlabWord{SlabState::Free, 0, 1}));
}

TEST(SlabLedger, AcquireTakesEachSlabOnceAndRespectsUsable) {
    LedgerFixture f(3);
    EXPECT_EQ(f.ledger->acquire([](std::uint32_t slab) { return slab == 2; }), 2U);
    EXPECT_EQ(f.ledger->acquire([](std::uint32_t slab) { return slab == 2; }), std::nullopt);
    EXPECT_TRUE(f.ledger->acquire(kAny));
    EXPECT_TRUE(f.ledger->acquire(kAny));
    EXPECT_FALSE(f.ledger->acquire(kAny));
}

TEST(SlabLedger, AbandonedFillingStartsANewGeneration) {
    LedgerFixture f(1);
    const auto slab = *f.ledger->acquire(kAny);
    f.ledger->abandon(slab);
    EXPECT_EQ(f.ledger->word(slab), (SlabWord{SlabState::Free, 0, 2}));
}

TEST(SlabLedger, GoesThroughAllStates) {
    LedgerFixture f(1);
    const auto slab = f.make_ready();
    const SlabTicket ticket = f.ledger->lease(slab, f.admitted[0]);
    EXPECT_EQ(ticket, (SlabTicket{1, slab, 1, 1, 0}));
    EXPECT_EQ(f.state(slab), SlabState::Leased);
    EXPECT_TRUE(f.ledger->holds(slab, f.admitted[0]));
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::Completed);
    EXPECT_EQ(f.ledger->word(slab), (SlabWord{SlabState::Free, 0, 2}));
    EXPECT_TRUE(f.ledger->holders(slab).empty());
}

TEST(SlabLedger, ASpilledSlabIsFreeInTheNextGeneration) {
    LedgerFixture f(1);
    f.ledger->vacate(f.make_ready());
    EXPECT_EQ(f.ledger->word(0), (SlabWord{SlabState::Free, 0, 2}));
}

TEST(SlabLedgerDeathTest, SpillsOnlyWaitingSlabsWithoutHolders) {
    LedgerFixture f(1);
    EXPECT_DEATH(f.ledger->vacate(0), "broken contract") << "free";
    const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    EXPECT_DEATH(f.ledger->vacate(0), "broken contract") << "leased";
    f.ledger->expire(0);
    EXPECT_DEATH(f.ledger->vacate(0), "broken contract") << "waits, but a late holder reads it";
    (void)ticket;
}

TEST(SlabLedger, ARepeatedReleaseIsStaleOnceTheSlabIsFree) {
    LedgerFixture f(1);
    const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed);
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::Stale);
    f.make_ready();
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::Stale);
    EXPECT_EQ(f.state(0), SlabState::Ready);
}

// The callback runs once for each completion, and never otherwise.
TEST(SlabLedger, ReportsThatASlabWillBeCompletedBeforeItIs) {
    LedgerFixture f(1);
    std::vector<SlabState> seen;
    const auto record = [&] { seen.push_back(f.state(0)); };
    const auto returned = f.ledger->lease(f.make_ready(), f.admitted[0]);
    EXPECT_EQ(f.ledger->release(f.admitted[1], returned, ReleaseKind::Completed, record), ReleaseOutcome::Foreign);
    EXPECT_EQ(f.ledger->release(f.admitted[0], returned, ReleaseKind::Returned, record), ReleaseOutcome::Returned);
    EXPECT_TRUE(seen.empty());
    const auto ticket = f.ledger->lease(0, f.admitted[1]);
    EXPECT_EQ(f.ledger->release(f.admitted[1], ticket, ReleaseKind::Completed, record), ReleaseOutcome::Completed);
    EXPECT_EQ(seen, std::vector{SlabState::Leased});
    EXPECT_EQ(f.ledger->release(f.admitted[1], ticket, ReleaseKind::Completed, record), ReleaseOutcome::Stale);
    EXPECT_EQ(seen.size(), 1U);
}

TEST(SlabLedger, AReleaseOfAnotherHolderIsForeign) {
    LedgerFixture f(1);
    const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    EXPECT_EQ(f.ledger->release(f.admitted[1], ticket, ReleaseKind::Completed), ReleaseOutcome::Foreign);
    const ConsumerRef later{f.admitted[0].consumer_index, f.admitted[0].session + 100};
    EXPECT_EQ(f.ledger->release(later, ticket, ReleaseKind::Completed), ReleaseOutcome::Foreign);
    EXPECT_EQ(f.state(0), SlabState::Leased);
    EXPECT_TRUE(f.ledger->holds(0, f.admitted[0]));
}

TEST(SlabLedger, AReleaseWithAnotherAttemptIsForeign) {
    LedgerFixture f(1);
    auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    ++ticket.attempt;
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::Foreign);
    EXPECT_EQ(f.state(0), SlabState::Leased);
}

TEST(SlabLedger, NonsenseIsMalformed) {
    LedgerFixture f(1);
    auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, static_cast<ReleaseKind>(7)), ReleaseOutcome::Malformed);
    ticket.slab = 1;
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::Malformed);
    EXPECT_EQ(f.state(0), SlabState::Leased);
}

TEST(SlabLedger, AReturnedSlabIsReadyAgain) {
    LedgerFixture f(1);
    const auto first = f.ledger->lease(f.make_ready(), f.admitted[0]);
    EXPECT_EQ(f.ledger->release(f.admitted[0], first, ReleaseKind::Returned), ReleaseOutcome::Returned);
    EXPECT_EQ(f.state(0), SlabState::Ready);
    const auto second = f.ledger->lease(0, f.admitted[0]);
    EXPECT_EQ(second.attempt, 2U);
    EXPECT_EQ(second.generation, first.generation);
}

TEST(SlabLedger, TakesBackATicketThatCouldNotBeSent) {
    LedgerFixture f(1);
    const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->take_back(ticket, f.admitted[0]);
    EXPECT_EQ(f.state(0), SlabState::Ready);
    EXPECT_FALSE(f.ledger->holds(0, f.admitted[0]));
    EXPECT_EQ(f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::Foreign);
}

TEST(SlabLedger, AnExpiredLeaseKeepsItsHolderAndFreesNothing) {
    LedgerFixture f(1);
    const auto late = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->expire(0);
    EXPECT_EQ(f.state(0), SlabState::Ready);
    EXPECT_TRUE(f.ledger->holds(0, f.admitted[0]));
    EXPECT_FALSE(f.ledger->can_lease(0, f.admitted[0])) << "a holder does not get the slab again";
    ASSERT_TRUE(f.ledger->can_lease(0, f.admitted[1]));
    const auto current = f.ledger->lease(0, f.admitted[1]);

    EXPECT_EQ(f.ledger->release(f.admitted[1], current, ReleaseKind::Completed), ReleaseOutcome::Completed);
    EXPECT_EQ(f.state(0), SlabState::Retired) << "complete, but the late one may still read";
    EXPECT_FALSE(f.ledger->acquire(kAny));
    EXPECT_EQ(f.ledger->release(f.admitted[0], late, ReleaseKind::Completed), ReleaseOutcome::HolderRemoved);
    EXPECT_EQ(f.ledger->word(0), (SlabWord{SlabState::Free, 0, 2}));
}

// Another consumer overtakes one that is slower than its lease. The first of both to finish completes the slab.
TEST(SlabLedger, AnOvertakenCompletionCountsIfItComesFirst) {
    LedgerFixture f(1);
    const auto late = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->expire(0);
    const auto current = f.ledger->lease(0, f.admitted[1]);
    EXPECT_EQ(f.ledger->release(f.admitted[0], late, ReleaseKind::Completed), ReleaseOutcome::Completed);
    EXPECT_EQ(f.state(0), SlabState::Retired) << "the other one still reads it";
    EXPECT_EQ(f.ledger->release(f.admitted[1], current, ReleaseKind::Completed), ReleaseOutcome::HolderRemoved);
    EXPECT_EQ(f.state(0), SlabState::Free);
}

TEST(SlabLedger, AnOvertakenReturnLeavesTheSlabWithItsHolder) {
    LedgerFixture f(1);
    const auto late = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->expire(0);
    const auto current = f.ledger->lease(0, f.admitted[1]);
    EXPECT_EQ(f.ledger->release(f.admitted[0], late, ReleaseKind::Returned), ReleaseOutcome::HolderRemoved);
    EXPECT_EQ(f.state(0), SlabState::Leased);
    EXPECT_EQ(f.ledger->release(f.admitted[1], current, ReleaseKind::Completed), ReleaseOutcome::Completed);
    EXPECT_EQ(f.state(0), SlabState::Free);
}

TEST(SlabLedger, ALateCompletionCountsWhileNoOtherHasTheSlab) {
    LedgerFixture f(1);
    const auto late = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->expire(0);
    EXPECT_EQ(f.ledger->release(f.admitted[0], late, ReleaseKind::Completed), ReleaseOutcome::Completed);
    EXPECT_EQ(f.state(0), SlabState::Free);
}

TEST(SlabLedger, DoesNotRedeliverWithFullHolderPlaces) {
    LedgerFixture f(1, 0);
    std::vector<ConsumerRef> all;
    std::vector<LedgerConsumer> consumer_table(kMaxHolders + 1);
    std::vector<SlabEntry> entries(1);
    auto ledger = SlabLedger::format({consumer_table, entries}, 1);
    for (std::uint32_t i = 0; i <= kMaxHolders; ++i) all.push_back(*ledger.admit(i, 0, 0, i));
    ledger.publish(*ledger.acquire(kAny));
    for (std::uint32_t i = 0; i < kMaxHolders; ++i) {
        ledger.lease(0, all[i]);
        ledger.expire(0);
    }
    EXPECT_FALSE(ledger.can_lease(0, all[kMaxHolders]));
}

TEST(SlabLedger, ADeathReturnsAllSlabsAndChargesTheOneInWork) {
    LedgerFixture f(3);
    const auto working = f.ledger->lease(f.make_ready(), f.admitted[0]);
    const auto waiting = f.ledger->lease(f.make_ready(), f.admitted[0]);
    const auto others = f.ledger->lease(f.make_ready(), f.admitted[1]);
    const WorkWord work{working.slab, working.attempt, static_cast<std::uint32_t>(working.generation)};
    const auto revoked = f.ledger->revoke(f.admitted[0], work.pack());
    ASSERT_EQ(revoked.size(), 2U);
    for (const auto& hold : revoked) EXPECT_TRUE(hold.ready_again);
    EXPECT_EQ(f.ledger->failures(working.slab), 1U);
    EXPECT_EQ(f.ledger->failures(waiting.slab), 0U);
    EXPECT_EQ(f.state(working.slab), SlabState::Ready);
    EXPECT_EQ(f.state(waiting.slab), SlabState::Ready);
    EXPECT_EQ(f.state(others.slab), SlabState::Leased);
    EXPECT_EQ(f.ledger->release(f.admitted[0], waiting, ReleaseKind::Completed), ReleaseOutcome::Foreign);
}

TEST(SlabLedger, AWorkWordOfAnotherGenerationIsNotCharged) {
    LedgerFixture f(1);
    const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    const WorkWord stale{ticket.slab, ticket.attempt, static_cast<std::uint32_t>(ticket.generation + 1)};
    const auto revoked = f.ledger->revoke(f.admitted[0], stale.pack());
    ASSERT_EQ(revoked.size(), 1U);
    EXPECT_FALSE(revoked[0].counted);
    EXPECT_EQ(f.ledger->failures(0), 0U);
}

TEST(SlabLedger, DeathOfALateHolderFreesARetiredSlab) {
    LedgerFixture f(1);
    f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->expire(0);
    const auto current = f.ledger->lease(0, f.admitted[1]);
    f.ledger->release(f.admitted[1], current, ReleaseKind::Completed);
    ASSERT_EQ(f.state(0), SlabState::Retired);
    const auto revoked = f.ledger->revoke(f.admitted[0], 0);
    ASSERT_EQ(revoked.size(), 1U);
    EXPECT_FALSE(revoked[0].ready_again);
    EXPECT_EQ(f.state(0), SlabState::Free);
}

TEST(SlabLedger, ChargesEndWithTheFilling) {
    LedgerFixture f(1);
    auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->revoke(f.admitted[0], WorkWord{0, 1, 1}.pack());
    ASSERT_EQ(f.ledger->failures(0), 1U);
    ticket = f.ledger->lease(0, f.admitted[1]);
    f.ledger->release(f.admitted[1], ticket, ReleaseKind::Completed);
    EXPECT_EQ(f.ledger->failures(0), 0U);
}

TEST(SlabLedger, AGivenUpSlabReturnsOnceItHasNoHolder) {
    LedgerFixture f(1);
    const auto late = f.ledger->lease(f.make_ready(), f.admitted[0]);
    f.ledger->expire(0);
    f.ledger->dead_letter(0);
    EXPECT_FALSE(f.ledger->can_lease(0, f.admitted[1]));
    EXPECT_FALSE(f.ledger->acquire(kAny));
    f.ledger->discard(0);
    EXPECT_EQ(f.state(0), SlabState::Retired);
    EXPECT_EQ(f.ledger->release(f.admitted[0], late, ReleaseKind::Completed), ReleaseOutcome::HolderRemoved)
        << "a given-up slab stays given up";
    EXPECT_EQ(f.state(0), SlabState::Free);
}

TEST(SlabLedger, ReusesADeadConsumersPlace) {
    std::vector<LedgerConsumer> consumer_table(1);
    std::vector<SlabEntry> entries(1);
    auto ledger = SlabLedger::format({consumer_table, entries}, 1);
    const auto first = *ledger.admit(1, 0, 0, 1);
    EXPECT_FALSE(ledger.admit(2, 0, 0, 2)) << "full";
    ledger.revoke(first, 0);
    const auto second = *ledger.admit(2, 0, 0, 2);
    EXPECT_EQ(second.consumer_index, first.consumer_index);
    EXPECT_NE(second.session, first.session);
}

// --- what no caller may do ---

using SlabLedgerDeathTest = ::testing::Test;

// --- several groups over the same slabs ---

TEST(SlabLedger, FillsTheSlabThatAnotherGroupAcquired) {
    LedgerFixture f(3);
    f.ledger->acquire_also(1);
    EXPECT_EQ(f.ledger->word(1), (SlabWord{SlabState::Filling, 0, 1}));
    EXPECT_EQ(f.ledger->count(SlabState::Free), 2U);
    EXPECT_EQ(f.ledger->acquire(kAny), 0U);
    EXPECT_EQ(f.ledger->acquire(kAny), 2U);
    EXPECT_EQ(f.ledger->acquire(kAny), std::nullopt) << "each slab once";
}

TEST(SlabLedger, FindsAFreeSlabOfAKind) {
    LedgerFixture f(2);
    EXPECT_TRUE(f.ledger->any_free(kAny));
    EXPECT_FALSE(f.ledger->any_free([](std::uint32_t slab) { return slab > 1; }));
    f.ledger->acquire_also(1);
    EXPECT_FALSE(f.ledger->any_free([](std::uint32_t slab) { return slab == 1; }));
}

TEST(SlabLedger, AMarkOfALostSlabEndsWithItsFilling) {
    LedgerFixture f(1);
    EXPECT_FALSE(f.ledger->is_lost(0));
    const auto slab = f.make_ready();
    f.ledger->mark_lost(slab);
    EXPECT_TRUE(f.ledger->is_lost(slab));
    const SlabTicket ticket = f.ledger->lease(slab, f.admitted[0]);
    EXPECT_TRUE(SlabLedger::adopt({f.consumer_table, f.entries}, 2).is_lost(slab)) << "also for the next producer";
    f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed);
    EXPECT_FALSE(f.ledger->is_lost(slab));
    f.make_ready();
    EXPECT_FALSE(f.ledger->is_lost(slab));
}

TEST(SlabLedger, RaisesTheGenerationOfAFreeSlab) {
    LedgerFixture f(1);
    f.ledger->raise_generation(0, 2);
    EXPECT_EQ(f.ledger->word(0), (SlabWord{SlabState::Free, 0, 2}));
    EXPECT_EQ(f.ledger->acquire(kAny), 0U);
    EXPECT_EQ(f.ledger->word(0), (SlabWord{SlabState::Filling, 0, 2}));
}

TEST(SlabLedgerDeathTest, FollowsOtherGroupsWithFreeSlabsOnly) {
    LedgerFixture f(2);
    EXPECT_DEATH(f.ledger->raise_generation(0, 1), "broken contract") << "not later";
    f.ledger->acquire_also(0);
    EXPECT_DEATH(f.ledger->acquire_also(0), "broken contract") << "twice";
    EXPECT_DEATH(f.ledger->raise_generation(0, 2), "broken contract") << "being filled";
}

TEST(SlabLedgerDeathTest, IllegalTransitionsEndTheProcess) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    LedgerFixture f(1);
    EXPECT_DEATH(f.ledger->publish(0), "broken contract");
    EXPECT_DEATH(f.ledger->abandon(0), "broken contract");
    EXPECT_DEATH(f.ledger->expire(0), "broken contract");
    EXPECT_DEATH(f.ledger->dead_letter(0), "broken contract");
    EXPECT_DEATH(f.ledger->discard(0), "broken contract");
    EXPECT_DEATH(f.ledger->lease(0, f.admitted[0]), "broken contract");
    EXPECT_DEATH(f.ledger->word(1), "broken contract");
    f.make_ready();
    EXPECT_DEATH(f.ledger->publish(0), "broken contract");
    EXPECT_DEATH(f.ledger->abandon(0), "broken contract");
    const auto ticket = f.ledger->lease(0, f.admitted[0]);
    EXPECT_DEATH(f.ledger->lease(0, f.admitted[1]), "broken contract");
    EXPECT_DEATH(f.ledger->dead_letter(0), "broken contract");
    EXPECT_DEATH(f.ledger->take_back(ticket, f.admitted[1]), "broken contract");
}

// --- a producer's death between two stores ---

TEST(SlabLedgerAdopt, AbandonsFillingAndKeepsTheRest) {
    LedgerFixture f(3);
    f.make_ready();
    const auto leased = f.ledger->lease(0, f.admitted[0]);
    f.make_ready();
    const auto filling = *f.ledger->acquire(kAny);
    auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2);
    EXPECT_EQ(adopted.word(filling), (SlabWord{SlabState::Free, 0, 2}));
    EXPECT_EQ(adopted.word(1).state, SlabState::Ready);
    EXPECT_EQ(adopted.release(f.admitted[0], leased, ReleaseKind::Completed), ReleaseOutcome::Completed)
        << "a ticket of the previous epoch stays valid";
    EXPECT_GT(adopted.admit(9, 9, 9, 9)->session, f.admitted.back().session);
}

TEST(SlabLedgerAdopt, RepairsEveryHalfDoneStep) {
    {  // lease: the holder was stored, the state not yet
        LedgerFixture f(1);
        f.make_ready();
        store_word(f.entries[0].holders[0],
                   HolderWord{true, 1, f.admitted[0].consumer_index, f.admitted[0].session}.pack());
        auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2);
        EXPECT_EQ(adopted.word(0).state, SlabState::Ready);
        EXPECT_TRUE(adopted.holds(0, f.admitted[0])) << "kept until its consumer is asked or dead";
        EXPECT_TRUE(adopted.can_lease(0, f.admitted[1]));
    }
    {  // return: the holder was cleared, the state not yet
        LedgerFixture f(1);
        f.ledger->lease(f.make_ready(), f.admitted[0]);
        store_word(f.entries[0].holders[0], 0);
        EXPECT_EQ(SlabLedger::adopt({f.consumer_table, f.entries}, 2).word(0).state, SlabState::Ready);
    }
    {  // complete: Retired and without holders, Free not yet
        LedgerFixture f(1);
        f.ledger->lease(f.make_ready(), f.admitted[0]);
        store_word(f.entries[0].word, SlabWord{SlabState::Retired, 1, 1}.pack());
        EXPECT_EQ(SlabLedger::adopt({f.consumer_table, f.entries}, 2).word(0).state, SlabState::Retired)
            << "still held";
        store_word(f.entries[0].holders[0], 0);
        EXPECT_EQ(SlabLedger::adopt({f.consumer_table, f.entries}, 2).word(0), (SlabWord{SlabState::Free, 0, 2}));
    }
}

TEST(SlabLedgerAdopt, FinishesACountedStep) {
    {  // published: the bytes are there
        LedgerFixture f(1);
        const auto slab = *f.ledger->acquire(kAny);
        EXPECT_EQ(SlabLedger::adopt({f.consumer_table, f.entries}, 2, {CountedStep::Publish, slab, 1}).word(slab),
                  (SlabWord{SlabState::Ready, 0, 1}));
    }
    {  // completed: its holder repeats the release, which completes nothing a second time
        LedgerFixture f(1);
        const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
        auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2, {CountedStep::Complete, 0, 1});
        EXPECT_EQ(adopted.word(0).state, SlabState::Retired);
        EXPECT_EQ(adopted.release(f.admitted[0], ticket, ReleaseKind::Completed), ReleaseOutcome::HolderRemoved);
        EXPECT_EQ(adopted.word(0), (SlabWord{SlabState::Free, 0, 2}));
    }
    {  // given up: a slab counted as given up is never delivered again
        LedgerFixture f(1);
        f.make_ready();
        const auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2, {CountedStep::DeadLetter, 0, 1});
        EXPECT_EQ(adopted.word(0).state, SlabState::DeadLettered);
    }
    {  // dropped: a slab counted as dropped is never delivered again
        LedgerFixture f(1);
        f.ledger->release(f.admitted[0], f.ledger->lease(f.make_ready(), f.admitted[0]), ReleaseKind::Failed);
        const auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2, {CountedStep::Drop, 0, 1});
        EXPECT_EQ(adopted.word(0), (SlabWord{SlabState::Free, 0, 2}));
        EXPECT_EQ(adopted.failures(0), 0U);
    }
    {  // taken already, and gone on since
        LedgerFixture f(1);
        const auto ticket = f.ledger->lease(f.make_ready(), f.admitted[0]);
        f.ledger->release(f.admitted[0], ticket, ReleaseKind::Completed);
        f.make_ready();
        const auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2, {CountedStep::Complete, 0, 1});
        EXPECT_EQ(adopted.word(0), (SlabWord{SlabState::Ready, 0, 2}));
    }
}

TEST(SlabLedgerAdopt, AHalfGivenAttemptIsUsedUp) {
    LedgerFixture f(1);
    f.make_ready();
    store_word(f.entries[0].holders[0],
               HolderWord{true, 1, f.admitted[0].consumer_index, f.admitted[0].session}.pack());
    auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2);
    const auto other = adopted.lease(0, f.admitted[1]);
    EXPECT_EQ(other.attempt, 2U);
    adopted.take_back({.epoch = 2, .slab = 0, .generation = 1, .attempt = 1}, f.admitted[0]);
    EXPECT_EQ(adopted.word(0).state, SlabState::Leased) << "the other delivery stays valid";
}

TEST(SlabLedgerAdopt, KnowsTheAdmittedConsumers) {
    LedgerFixture f(1, 2);
    const auto adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2);
    const auto in = adopted.admitted();
    ASSERT_EQ(in.size(), 2U);
    EXPECT_EQ(in[1].ref, f.admitted[1]);
    EXPECT_EQ(in[1].pid, 101U);
    EXPECT_EQ(in[1].start_time, 1U);
}

TEST(SlabLedgerAdopt, RefusesInvalidWords) {
    const auto refusal = [](auto spoil) -> std::string {
        LedgerFixture f(2);
        f.ledger->lease(f.make_ready(), f.admitted[0]);
        spoil(f);
        try {
            SlabLedger::adopt({f.consumer_table, f.entries}, 2);
            return "";
        } catch (const ProtocolError& refused) {
            return refused.what();
        }
    };
    EXPECT_EQ(refusal([](LedgerFixture&) {}), "");
    EXPECT_THAT(refusal([](LedgerFixture& f) { store_word(f.entries[0].word, std::uint64_t{9} << 60); }),
                testing::StartsWith("ledger: slab 0: state is 9, expected 0 to 5"));
    EXPECT_THAT(refusal([](LedgerFixture& f) {
                    store_word(f.entries[0].holders[3], HolderWord{true, 1, 2000, 1}.pack());
                }),
                testing::StartsWith("ledger: slab 0: a holder's consumer index is 2000, expected below 8"));
    EXPECT_THAT(refusal([](LedgerFixture& f) {
                    store_word(f.entries[1].holders[0], HolderWord{true, 1, 1, 1}.pack());
                }),
                testing::StartsWith("ledger: slab 1: a holder's word is "))
        << "the slab is free";
    EXPECT_THAT(refusal([](LedgerFixture& f) { store_word(f.entries[0].holders[3], 5); }),
                testing::StartsWith("ledger: slab 0: a holder's word is 5"))
        << "out of range";
    EXPECT_THAT(refusal([](LedgerFixture& f) { store_word(f.consumer_table[4].session, ~0ULL); }),
                testing::StartsWith("ledger: consumer 4: session is "));
}

}  // namespace
}  // namespace offramp
