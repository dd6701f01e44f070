#include "producer/broker/broker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/log.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// --- admission ---

TEST(Broker, AdmitsAConsumerAfterItsAnswer) {
    BrokerFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const BrokerReport report = f.report();
    ASSERT_EQ(report.consumers.size(), 1U);
    EXPECT_EQ(report.consumers[0].pid, 11U);
    EXPECT_EQ(report.consumers[0].session, admission_of(consumer.welcome->session));
}

TEST(Broker, NamesTheReasonOfARefusal) {
    BrokerFixture f;
    const auto reason_of = [](const ScriptedConsumer& consumer) {
        return consumer.refused ? static_cast<RefusalReason>(consumer.refused->reason) : RefusalReason{};
    };
    ScriptedConsumer other_run(f, 11);
    other_run.hello(BrokerFixture::kNonce + 1);
    EXPECT_EQ(reason_of(other_run), RefusalReason::Nonce);
    ScriptedConsumer other_user(f, 12, 2, 1001);
    other_user.hello();
    EXPECT_EQ(reason_of(other_user), RefusalReason::User);
    EXPECT_NE(get_text(other_user.refused->text).find("1001"), std::string::npos);
    ScriptedConsumer foreign(f, 0);
    foreign.hello();
    EXPECT_EQ(reason_of(foreign), RefusalReason::ForeignProcess);

    Bytes wrong = of_run(Hello{});
    wrong[4] = std::byte{9};
    ScriptedConsumer other_version(f, 13);
    other_version.port->send_work(wrong);
    f.broker->step();
    other_version.receive();
    EXPECT_EQ(reason_of(other_version), RefusalReason::Version);
    EXPECT_TRUE(f.report().consumers.empty());
}

// The producer's process has no descriptor left for a pidfd.
TEST(Broker, AConsumerWaitsForADescriptorToBeWatchedWith) {
    BrokerFixture f;
    for (const int scarce : {EMFILE, ENFILE}) {
        f.watch.open_refusal = scarce;
        ScriptedConsumer consumer(f, 100 + scarce), dead(f, 200 + scarce);
        consumer.hello();
        dead.hello();
        f.advance(std::chrono::seconds(3));
        consumer.receive();
        EXPECT_FALSE(consumer.refused || consumer.challenge);
        f.watch.end(dead.pid);
        f.watch.open_refusal = 0;
        f.advance(std::chrono::seconds(1));
        consumer.receive();
        dead.receive();
        ASSERT_TRUE(consumer.challenge);
        EXPECT_FALSE(dead.challenge);
        consumer.port->send_work(encode(BrokerFixture::kNonce, Answer{consumer.challenge->secret}));
        f.broker->step();
        consumer.receive();
        EXPECT_TRUE(consumer.welcome);
    }
    // For other reasons no consumer waits, and only as many wait as may be admitted at all.
    f.watch.open_refusal = EPERM;
    ScriptedConsumer other(f, 300);
    other.hello();
    EXPECT_TRUE(other.refused);
    f.watch.open_refusal = EMFILE;
    std::vector<std::unique_ptr<ScriptedConsumer>> many;
    std::size_t refused = 0;
    for (int i = 0; i < 40; ++i) {
        many.push_back(std::make_unique<ScriptedConsumer>(f, 400 + i));
        many.back()->hello();
        refused += many.back()->refused ? 1 : 0;
    }
    EXPECT_GE(refused, 20U);
}

TEST(Broker, RefusesAConsumerWithOtherWork) {
    BrokerFixture f(1, {.work = 5});
    ScriptedConsumer other(f, 11);
    other.send(Hello{.work = 6, .window = 2});
    ASSERT_TRUE(other.refused);
    EXPECT_EQ(static_cast<RefusalReason>(other.refused->reason), RefusalReason::Work);
    EXPECT_NE(get_text(other.refused->text).find("process 11"), std::string::npos);
    EXPECT_EQ(f.report().refused["refused: other work"], 1U);
    ScriptedConsumer same(f, 12);
    same.send(Hello{.work = 5, .window = 2});
    EXPECT_TRUE(same.challenge);
}

TEST(Broker, RefusesAWrongAnswer) {
    BrokerFixture f;
    ScriptedConsumer consumer(f, 11);
    consumer.hello();
    ASSERT_TRUE(consumer.challenge);
    consumer.send(Answer{consumer.challenge->secret + 1});
    EXPECT_FALSE(consumer.welcome);
    EXPECT_EQ(f.report().refused.at("challenge not answered"), 1U);
}

TEST(Broker, DoesNotAdmitAPeerThatDiedBeforeItsAnswer) {
    BrokerFixture f;
    ScriptedConsumer consumer(f, 11);
    consumer.hello();
    f.watch.end(11);
    consumer.send(Answer{consumer.challenge->secret});
    EXPECT_FALSE(consumer.welcome);
}

TEST(Broker, AnswersARepeatedHelloAsBefore) {
    BrokerFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const auto session = consumer.welcome->session;
    consumer.welcome.reset();
    consumer.hello();
    ASSERT_TRUE(consumer.welcome);
    EXPECT_EQ(consumer.welcome->session, session);
    EXPECT_EQ(f.report().consumers.size(), 1U);
}

// --- delivery ---

TEST(Broker, DeliversAtMostTheWindow) {
    BrokerFixture f(8);
    JoinedConsumer consumer(f, 11, 2);
    for (std::uint64_t batch = 0; batch < 6; ++batch) consumer.take(batch);
    EXPECT_EQ(consumer.tickets.size(), 2U);
    consumer.release(consumer.tickets[0]);
    EXPECT_EQ(consumer.tickets.size(), 3U);
}

TEST(Broker, GivesTheLastTwoSlabsOnlyToIdleConsumers) {
    BrokerFixture f(8);
    JoinedConsumer first(f, 11, 4);
    f.publish(0);
    f.publish(1);
    first.take(2);
    EXPECT_EQ(first.tickets.size(), 1U) << "one while idle";
    first.take(3);
    EXPECT_EQ(first.tickets.size(), 2U) << "one more when three were waiting";
    JoinedConsumer second(f, 12, 4);
    second.receive();
    EXPECT_EQ(second.tickets.size(), 1U);
}

TEST(Broker, RecordsTheHolderBeforeTheTicketIsSent) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    ASSERT_EQ(consumer.tickets.size(), 1U);
    EXPECT_TRUE(
        f.ledger.holds(consumer.tickets[0].slab, {consumer.welcome->consumer_index, consumer.welcome->session}));
}

TEST(Broker, RedirectsATicketForAVanishedPeer) {
    BrokerFixture f;
    JoinedConsumer gone(f, 11);
    gone.port.reset();
    f.publish(0);
    EXPECT_EQ(f.ledger.count(SlabState::Ready), 1U);
    JoinedConsumer other(f, 12);
    f.watch.end(11);
    f.advance(seconds(1));
    other.receive();
    ASSERT_EQ(other.tickets.size(), 1U);
    EXPECT_EQ(f.report().published.samples, 4U);
}

TEST(Broker, CreditZeroStopsDelivery) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.port->send_work(of_run(Credit{consumer.welcome->session, 0, 0}));
    consumer.take(0);
    EXPECT_TRUE(consumer.tickets.empty());
}

TEST(Broker, ReportsTheConsumersThatTakeSlabs) {
    BrokerFixture f;
    ScriptedConsumer consumer(f, 11, 0);  // its processor is not created yet
    consumer.join();
    EXPECT_FALSE(f.report().consumers.at(0).ready);
    consumer.port->send_work(of_run(Credit{consumer.welcome->session, 2, 0}));
    f.broker->step();
    EXPECT_TRUE(f.report().consumers.at(0).ready);
    consumer.port->send_work(of_run(Credit{consumer.welcome->session, 0, 0}));
    f.broker->step();
    EXPECT_FALSE(f.report().consumers.at(0).ready) << "it leaves";
}

// --- releases ---

TEST(Broker, RefillsACompletedSlabInTheNextGeneration) {
    BrokerFixture f(1);
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    EXPECT_FALSE(f.can_fill());
    consumer.release(consumer.tickets[0]);
    ASSERT_TRUE(f.can_fill());
    consumer.take(1);
    EXPECT_EQ(consumer.acknowledged, 1U);
    EXPECT_EQ(consumer.tickets[1].generation, consumer.tickets[0].generation + 1);
    const BrokerReport report = f.report();
    EXPECT_EQ(report.completed.samples, 4U);
    EXPECT_EQ(report.completed.batches, 1U);
    EXPECT_TRUE(report.conserved());
}

TEST(Broker, AcknowledgesARepeatedReleaseWithoutEffect) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    consumer.release(consumer.tickets[0]);
    consumer.acknowledged = 0;
    consumer.send_releases(1, {{consumer.tickets[0], 1, 0}});
    EXPECT_EQ(consumer.acknowledged, 1U);
    EXPECT_EQ(f.report().repeated_releases, 1U);
    EXPECT_EQ(f.report().completed.samples, 4U);
}

TEST(Broker, ReportsAnAcceptedCompletionOnce) {
    std::vector<std::uint64_t> completed;
    BrokerOptions options;
    options.on_completed = [&completed](const PublishedSlab& slab) { completed.push_back(slab.first_batch); };
    BrokerFixture f(4, options);
    JoinedConsumer consumer(f, 11);
    consumer.take(5);
    SlabTicket stale = consumer.tickets.at(0);
    ++stale.generation;
    consumer.release(stale);
    consumer.release(consumer.tickets[0], ReleaseKind::Returned);
    EXPECT_TRUE(completed.empty());
    f.advance(seconds(1));
    consumer.receive();
    consumer.release(consumer.tickets.at(1));
    consumer.release(consumer.tickets[1]);
    consumer.send_releases(1, {{consumer.tickets[1], 1, 0}});
    EXPECT_EQ(completed, std::vector<std::uint64_t>{5});
}

TEST(Broker, AcknowledgesReleasesRarelyButALeaverImmediately) {
    BrokerFixture f(8);
    JoinedConsumer consumer(f, 11, 8);
    for (std::uint64_t batch = 0; batch < 6; ++batch) consumer.take(batch);
    ASSERT_GE(consumer.tickets.size(), 4U);
    consumer.release(consumer.tickets[0]);
    EXPECT_EQ(consumer.acknowledged, 0U) << "it is sent with the next tickets";
    consumer.take(6);
    EXPECT_EQ(consumer.acknowledged, 1U);
    consumer.release(consumer.tickets[1]);
    consumer.take(7);
    ASSERT_GE(consumer.tickets.size(), 6U);
    EXPECT_EQ(consumer.acknowledged, 1U) << "too soon after the last one";
    EXPECT_LE(f.broker->patience(), kAcknowledgeAlone);
    f.advance(kAcknowledgeAlone);
    consumer.receive();
    EXPECT_EQ(consumer.acknowledged, 2U) << "no tickets came";
    consumer.release(consumer.tickets[2]);
    EXPECT_EQ(consumer.acknowledged, 2U);
    consumer.send(Credit{consumer.welcome->session, 0, 0});
    EXPECT_EQ(consumer.acknowledged, 3U) << "it waits for no other release";
}

TEST(Broker, RedoesAKilledConsumersUnreleasedSlabWithoutACharge) {
    BrokerFixture f(8);
    auto killed = std::make_unique<JoinedConsumer>(f, 11, 8);
    for (std::uint64_t batch = 0; batch < 6; ++batch) killed->take(batch);
    const std::size_t held = killed->tickets.size();
    ASSERT_GE(held, 3U);
    // It has committed the first two, holds their releases back, and works on the third.
    killed->work_on(killed->tickets[2]);
    killed->die();
    EXPECT_TRUE(f.report().conserved());
    JoinedConsumer successor(f, 12, 8);
    f.broker->step();
    successor.receive();
    for (std::size_t i = 0; i < held; ++i) {
        const auto again =
            std::find_if(successor.tickets.begin(), successor.tickets.end(),
                         [&](const SlabTicket& ticket) { return ticket.slab == killed->tickets[i].slab; });
        const bool last_ones = again == successor.tickets.end();
        EXPECT_TRUE(!last_ones || f.ledger.word(killed->tickets[i].slab).state == SlabState::Ready);
        EXPECT_EQ(f.ledger.failures(killed->tickets[i].slab), i == 2 ? 1U : 0U) << "slab " << i;
    }
    EXPECT_EQ(f.report().completed.slabs, 0U);
    EXPECT_TRUE(f.report().conserved());
}

// --- stand-ins ---

TEST(Broker, DeliversASlabPublishedDuringItsSleepWithoutAStep) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    f.broker->step();
    EXPECT_GT(f.broker->patience(), std::chrono::nanoseconds{});
    for (std::uint64_t batch = 0; batch < 2; ++batch) {
        auto loan = f.exchange->wait_for_slab();  // the stand-in granted the second one
        ASSERT_TRUE(loan);
        f.exchange->publish(std::move(*loan), {.first_batch = batch, .samples = 4, .bytes = 40});
        EXPECT_TRUE(f.broker->dispatch_inline());
    }
    consumer.receive();
    EXPECT_EQ(consumer.tickets.size(), 1U) << "the last ready slabs go to idle consumers";
    EXPECT_EQ(f.report().published.slabs, 2U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(Broker, AStandInOnlyDelivers) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    auto loan = f.exchange->wait_for_slab();
    const Bytes release =
        of_run(Releases{consumer.welcome->session, 1}, std::vector<ReleaseRecord>{{consumer.tickets.at(0), 1, 0}});
    consumer.port->send_release(release);
    f.exchange->publish(std::move(*loan), {.first_batch = 1, .samples = 4, .bytes = 40});
    EXPECT_FALSE(f.broker->dispatch_inline()) << "a message waits";
    EXPECT_EQ(f.report().completed.slabs, 0U);
    f.broker->step();
    EXPECT_EQ(f.report().completed.slabs, 1U);
    { const auto forgotten = f.exchange->wait_for_slab(); }
    EXPECT_FALSE(f.broker->dispatch_inline()) << "a slab was abandoned";
    f.broker->step();
    f.exchange->finish();
    EXPECT_FALSE(f.broker->dispatch_inline()) << "the egress has finished";
    EXPECT_TRUE(f.report().conserved());
}

TEST(Broker, AStandInReportsNoShortageWhileAReleaseWaits) {
    BrokerFixture f(2);
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    auto loan = f.exchange->wait_for_slab();
    std::optional<WriteLoan> next;
    std::thread asks([&] { next = f.exchange->wait_for_slab(SlabExchange::WhenNone::Return); });
    while (!f.exchange->waiting()) std::this_thread::yield();
    consumer.port->send_release(
        of_run(Releases{consumer.welcome->session, 1}, std::vector<ReleaseRecord>{{consumer.tickets.at(0), 1, 0}}));
    f.exchange->publish(std::move(*loan), {.first_batch = 1, .samples = 4, .bytes = 40});
    EXPECT_FALSE(f.broker->dispatch_inline());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // in which it would receive the shortage
    f.broker->step();
    asks.join();
    EXPECT_TRUE(next);
}

TEST(Broker, AReleaseAfterAGapWaitsForTheMissingOne) {
    BrokerFixture f(8);
    JoinedConsumer consumer(f, 11, 4);
    for (std::uint64_t batch = 0; batch < 5; ++batch) consumer.take(batch);
    ASSERT_GE(consumer.tickets.size(), 2U);
    consumer.send_releases(2, {{consumer.tickets[1], 1, 0}});
    EXPECT_EQ(consumer.acknowledged, 0U);
    EXPECT_EQ(f.report().completed.slabs, 0U);
    consumer.send_releases(1, {{consumer.tickets[0], 1, 0}, {consumer.tickets[1], 1, 0}});
    EXPECT_EQ(f.report().completed.slabs, 2U);
    f.advance(kAcknowledgeAlone);
    consumer.receive();
    EXPECT_EQ(consumer.acknowledged, 2U);
}

TEST(Broker, RefusesAReleaseInAnotherConsumersName) {
    BrokerFixture f;
    ScriptedConsumer holder(f, 11);
    ScriptedConsumer thief(f, 12);
    holder.join();
    thief.join();
    holder.take(0);
    thief.receive();
    ScriptedConsumer& owner = holder.tickets.empty() ? thief : holder;
    ScriptedConsumer& other = holder.tickets.empty() ? holder : thief;
    other.port->send_release(
        of_run(Releases{owner.welcome->session, 1}, std::vector<ReleaseRecord>{{owner.tickets[0], 1, 0}}));
    f.broker->step();
    EXPECT_EQ(f.report().refused.at("release in another's name"), 1U);
    EXPECT_EQ(f.ledger.word(owner.tickets[0].slab).state, SlabState::Leased);
    other.send_releases(1, {{owner.tickets[0], 1, 0}});
    EXPECT_EQ(f.report().releases[static_cast<std::size_t>(ReleaseOutcome::Foreign)], 1U);
    EXPECT_EQ(f.ledger.word(owner.tickets[0].slab).state, SlabState::Leased);
}

TEST(Broker, CountsGarbageWithoutEffect) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    f.publish(0);
    const std::vector<SlabEntry> before = f.entries;
    const Bytes garbage(100, std::byte{0xee});
    consumer.port->send_work(garbage);
    consumer.port->send_release(garbage);
    consumer.port->send_work({});
    consumer.port->send_release(of_run(Disconnect{consumer.welcome->session}));
    f.broker->step();
    EXPECT_EQ(f.entries[0].word, before[0].word);
    EXPECT_EQ(f.entries[0].holders, before[0].holders);
    EXPECT_FALSE(f.report().refused.empty());
}

// A consumer of the previous run in this directory, whose process now has one of this run: session, slab, generation
// and attempt are valid here, too.
TEST(Broker, IgnoresAnotherRunsMessages) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    ASSERT_EQ(consumer.tickets.size(), 1U);
    const std::vector<SlabEntry> before = f.entries;
    constexpr std::uint64_t kDeadRun = BrokerFixture::kNonce + 1;
    const std::uint64_t session = consumer.welcome->session;
    for (const ReleaseKind kind :
         {ReleaseKind::Completed, ReleaseKind::Returned, ReleaseKind::Failed, ReleaseKind::Rejected}) {
        const std::vector<ReleaseRecord> records{{consumer.tickets[0], static_cast<std::uint32_t>(kind), 0}};
        consumer.port->send_release(encode(kDeadRun, Failure{session, 1, {}}));
        consumer.port->send_release(encode(kDeadRun, Releases{session, 1}, records));
    }
    consumer.port->send_work(encode(kDeadRun, Answer{consumer.challenge->secret}));
    consumer.port->send_work(encode(kDeadRun, Credit{session, 0, 0}));
    consumer.port->send_work(encode(kDeadRun, Disconnect{session}));
    consumer.port->send_work(encode(kDeadRun, Disconnect{0}));
    f.broker->step();
    EXPECT_EQ(f.entries[0].word, before[0].word);
    EXPECT_EQ(f.entries[0].holders, before[0].holders);
    EXPECT_EQ(f.entries[0].failures, before[0].failures);
    EXPECT_EQ(f.report().refused.at("release of another run"), 8U);
    EXPECT_EQ(f.report().refused.at("work message of another run"), 4U);
    consumer.release(consumer.tickets[0]);
    EXPECT_EQ(f.report().completed.slabs, 1U);
    consumer.take(1);
    EXPECT_EQ(consumer.tickets.size(), 2U) << "its credit is unchanged";
}

TEST(Broker, AConsumerThatEndsBeforeItsWelcomeFreesItsPlace) {
    BrokerFixture f;
    ScriptedConsumer greeted(f, 11);
    greeted.hello();
    ASSERT_TRUE(greeted.challenge);
    greeted.port->send_work(of_run(Disconnect{0}));
    ScriptedConsumer answered(f, 12);
    answered.hello();
    f.publish(0);
    answered.port->send_work(of_run(Answer{answered.challenge->secret}));
    answered.port->send_work(of_run(Disconnect{0}));
    f.broker->step();
    EXPECT_TRUE(f.ledger.admitted().empty());
    ScriptedConsumer next(f, 13);
    ASSERT_TRUE(next.join());
    next.receive();
    ASSERT_EQ(next.tickets.size(), 1U);
    EXPECT_EQ(next.tickets[0].attempt, 1U);
    EXPECT_EQ(f.report().slab_failures, 0U);
    EXPECT_EQ(f.report().refused.count("challenge not answered"), 0U);
    next.port->send_work(of_run(Disconnect{0}));  // an unknown sender, until it is admitted
    ScriptedConsumer refused(f, 14, 2, 1001);
    refused.hello();
    refused.port->send_work(of_run(Disconnect{0}));
    f.broker->step();
    EXPECT_EQ(f.report().refused.count("work message from an unknown consumer"), 0U);
}

// --- deaths ---

TEST(Broker, RedeliversADeadConsumersBatchFromTheSameBytes) {
    BrokerFixture f;
    JoinedConsumer first(f, 11);
    first.take(0);
    first.work_on(first.tickets[0]);
    first.die();
    JoinedConsumer second(f, 12);
    second.receive();
    ASSERT_EQ(second.tickets.size(), 1U);
    EXPECT_EQ(second.tickets[0].slab, first.tickets[0].slab);
    EXPECT_EQ(second.tickets[0].generation, first.tickets[0].generation);
    EXPECT_EQ(second.tickets[0].attempt, 2U);
    second.release(second.tickets[0]);
    const BrokerReport report = f.report();
    EXPECT_EQ(report.completed.samples, 4U);
    EXPECT_EQ(report.redelivered.slabs, 1U);
    EXPECT_TRUE(report.conserved());
}

TEST(Broker, CountsAReleaseSentBeforeADeath) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    consumer.port->send_release(
        of_run(Releases{consumer.welcome->session, 1}, std::vector<ReleaseRecord>{{consumer.tickets[0], 1, 0}}));
    f.watch.end(11);
    f.broker->step();
    EXPECT_EQ(f.report().completed.slabs, 1U);
    EXPECT_EQ(f.report().redelivered.slabs, 0U);
}

TEST(Broker, GivesUpABatchAfterThreeDeaths) {
    BrokerFixture f(1);
    f.publish(9);
    for (pid_t pid = 11; pid < 14; ++pid) {
        JoinedConsumer consumer(f, pid);
        consumer.receive();
        ASSERT_EQ(consumer.tickets.size(), 1U) << pid;
        consumer.work_on(consumer.tickets[0]);
        consumer.die();
    }
    const BrokerReport report = f.report();
    ASSERT_EQ(report.dead_letters->size(), 1U);
    EXPECT_EQ(report.dead_letters->at(0).first_batch, 9U);
    EXPECT_EQ(report.dead_letters->at(0).pids, (std::vector<std::uint64_t>{11, 12, 13}));
    EXPECT_EQ(report.dead_lettered.samples, 4U);
    EXPECT_TRUE(report.conserved());
    EXPECT_TRUE(f.can_fill()) << "the slab itself is free again";
}

TEST(Broker, DoesNotChargeTheDeathOfAnIdleHolder) {
    BrokerFixture f(1);
    f.publish(0);
    for (pid_t pid = 11; pid < 20; ++pid) {
        JoinedConsumer consumer(f, pid);
        consumer.receive();
        ASSERT_EQ(consumer.tickets.size(), 1U);
        consumer.die();
    }
    EXPECT_EQ(f.report().dead_letters->size(), 0U);
    EXPECT_EQ(f.ledger.word(0).state, SlabState::Ready);
}

// Its process is often gone before its Disconnect arrives: an orderly end looks the same.
TEST(Broker, DoesNotReportAnEndWithoutASlabAsADeath) {
    BrokerFixture f(1);
    f.publish(0);
    testing::internal::CaptureStdout();
    JoinedConsumer sound(f, 11);
    sound.receive();
    ASSERT_EQ(sound.tickets.size(), 1U);
    sound.work_on(sound.tickets[0]);
    sound.release(sound.tickets[0]);
    store_word(f.heartbeats[sound.welcome->consumer_index].work, 0);
    sound.die();
    spdlog::default_logger()->flush();
    const std::string ended = testing::internal::GetCapturedStdout();
    EXPECT_THAT(ended, HasSubstr("(pid 11) ended and held nothing"));
    EXPECT_THAT(ended, Not(HasSubstr("died")));
    EXPECT_THAT(ended, Not(HasSubstr("0 slabs")));
    testing::internal::CaptureStdout();
    f.publish(1);
    JoinedConsumer dying(f, 12);
    dying.receive();
    dying.die();
    spdlog::default_logger()->flush();
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("(pid 12) died holding 1 slab"));
}

TEST(Broker, APreviousSessionsHeartbeatIsNotCharged) {
    BrokerFixture f(1);
    f.publish(0);
    JoinedConsumer consumer(f, 11);
    consumer.receive();
    consumer.work_on(consumer.tickets[0]);
    store_word(f.heartbeats[consumer.welcome->consumer_index].session, consumer.welcome->session + 5);
    consumer.die();
    EXPECT_EQ(f.ledger.failures(0), 0U);
}

// --- visibility timeouts ---

TEST(Broker, RedeliversASlabWithoutProgressAndKeepsItsMemory) {
    BrokerFixture f(1);
    JoinedConsumer hung(f, 11);
    hung.take(0);
    f.advance(seconds(31));
    f.broker->step();
    JoinedConsumer other(f, 12);
    other.receive();
    ASSERT_EQ(other.tickets.size(), 1U);
    other.release(other.tickets[0]);
    EXPECT_EQ(f.ledger.word(0).state, SlabState::Retired);
    EXPECT_FALSE(f.can_fill()) << "a timeout does not free memory";
    hung.release(hung.tickets[0]);
    EXPECT_TRUE(f.can_fill());
    EXPECT_EQ(f.report().completed.slabs, 1U);
}

// Each is slower than a visibility timeout: if each lost the slab in turn, it would never be done.
TEST(Broker, TheFirstToFinishCompletesAnOverdueSlab) {
    BrokerFixture f(1);
    f.publish(0);
    std::vector<std::unique_ptr<ScriptedConsumer>> slow;
    for (pid_t pid = 11; pid < 14; ++pid) {
        slow.push_back(std::make_unique<ScriptedConsumer>(f, pid, 1));
        ASSERT_TRUE(slow.back()->join());
        slow.back()->receive();
        ASSERT_EQ(slow.back()->tickets.size(), 1U) << pid;
        slow.back()->work_on(slow.back()->tickets[0]);
        f.advance(seconds(1));  // sees its last heartbeat
        f.advance(seconds(31));
        f.broker->step();
    }
    EXPECT_EQ(f.report().visibility_timeouts, 3U);
    slow[0]->release(slow[0]->tickets[0]);
    EXPECT_EQ(f.report().completed.slabs, 1U);
    EXPECT_EQ(f.ledger.word(0).state, SlabState::Retired) << "the others still read it";
    slow[1]->release(slow[1]->tickets[0], ReleaseKind::Returned);
    slow[2]->release(slow[2]->tickets[0]);
    EXPECT_TRUE(f.can_fill());
    EXPECT_EQ(f.report().completed.slabs, 1U);
    EXPECT_TRUE(f.report().conserved());
}

// A frozen container: neither broker nor consumer ran, so no consumer is late.
TEST(Broker, TheBrokersOwnPauseDoesNotExpireLeases) {
    BrokerFixture f(1, {.kill_stalled = true});
    JoinedConsumer working(f, 11);
    working.take(0);
    working.work_on(working.tickets[0]);
    f.advance(seconds(1));
    for (int pause = 0; pause < 3; ++pause) {
        f.clock.advance(seconds(1000));
        f.broker->step();
        f.advance(seconds(5));
        EXPECT_EQ(f.ledger.word(0).state, SlabState::Leased);
    }
    EXPECT_EQ(f.report().visibility_timeouts, 0U);
    EXPECT_EQ(f.report().stalled_killed, 0U);
    f.advance(seconds(31));  // only the broker runs
    EXPECT_EQ(f.report().visibility_timeouts, 1U);
    EXPECT_EQ(f.report().stalled_killed, 1U);
}

TEST(Broker, ProgressExtendsTheLease) {
    BrokerFixture f(1);
    JoinedConsumer busy(f, 11);
    busy.take(0);
    for (std::uint64_t i = 1; i < 6; ++i) {
        f.advance(seconds(20));
        store_word(f.heartbeats[busy.welcome->consumer_index].progress, i);
        f.broker->step();
    }
    EXPECT_EQ(f.ledger.word(0).state, SlabState::Leased);
}

TEST(Broker, DeliversNothingToAHungConsumer) {
    BrokerFixture f(4);
    JoinedConsumer hung(f, 11);
    hung.take(0);
    f.advance(seconds(31));
    f.broker->step();
    hung.take(1);
    EXPECT_EQ(hung.tickets.size(), 1U);
    store_word(f.heartbeats[hung.welcome->consumer_index].progress, 5);
    f.advance(seconds(1));
    hung.release(hung.tickets[0]);
    f.advance(seconds(1));
    hung.receive();
    EXPECT_EQ(hung.tickets.size(), 2U);
}

TEST(Broker, BacksOffAfterAReturn) {
    BrokerFixture f(1);
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    consumer.release(consumer.tickets[0], ReleaseKind::Returned);
    EXPECT_EQ(consumer.tickets.size(), 1U) << "not immediately";
    f.advance(milliseconds(150));
    consumer.receive();
    EXPECT_EQ(consumer.tickets.size(), 2U);
    EXPECT_EQ(f.ledger.failures(0), 0U);
}

// --- the end ---

TEST(Broker, EndsOnceAllIsReleasedAndAllConsumersHaveLeft) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    consumer.take(0);
    f.exchange->finish();
    f.broker->step();
    EXPECT_FALSE(f.broker->ended());
    consumer.release(consumer.tickets[0]);
    consumer.receive();
    ASSERT_TRUE(consumer.drain);
    EXPECT_EQ(static_cast<DrainReason>(consumer.drain->reason), DrainReason::RunEnded);
    EXPECT_FALSE(f.broker->ended());
    consumer.port->send_work(of_run(Disconnect{consumer.welcome->session}));
    f.broker->step();
    EXPECT_TRUE(f.broker->ended());
    EXPECT_EQ(f.report().slabs[static_cast<std::size_t>(SlabState::Free)], 4U);
    EXPECT_EQ(f.report().consumers.front().end, "disconnected");
}

TEST(Broker, DoesNotWaitForeverForDisconnects) {
    BrokerFixture f;
    JoinedConsumer consumer(f, 11);
    f.exchange->finish();
    f.broker->step();
    EXPECT_FALSE(f.broker->ended());
    f.advance(seconds(6));
    f.broker->step();
    EXPECT_TRUE(f.broker->ended());
}

TEST(Broker, WaitsWithoutConsumersAndReportsWhy) {
    BrokerFixture f(1);
    f.publish(0);
    f.exchange->finish();
    f.advance(seconds(100));
    f.broker->step();
    EXPECT_FALSE(f.broker->ended());
    EXPECT_NE(f.report().shortage.find("no consumers"), std::string::npos);
}

TEST(Broker, AnAbortReturnsSlabsThatWereNotBegun) {
    BrokerFixture f(4);
    JoinedConsumer consumer(f, 11);
    for (std::uint64_t batch = 0; batch < 3; ++batch) f.publish(batch);
    f.broker->abort();
    f.broker->step();
    consumer.receive();
    ASSERT_TRUE(consumer.drain);
    EXPECT_EQ(static_cast<DrainReason>(consumer.drain->reason), DrainReason::Aborted);
    for (const SlabTicket& ticket : std::vector(consumer.tickets)) consumer.release(ticket, ReleaseKind::Returned);
    consumer.port->send_work(of_run(Disconnect{consumer.welcome->session}));
    f.broker->step();
    EXPECT_TRUE(f.broker->ended());
    EXPECT_EQ(f.report().in_flight.slabs, 3U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(Broker, SteadyFiguresExcludeTheWarmUp) {
    BrokerFixture f(8, {.warmup_batches = 2});
    JoinedConsumer consumer(f, 11, 1);
    for (std::uint64_t batch = 0; batch < 5; ++batch) {
        consumer.take(batch);
        f.clock.advance(seconds(1));
        consumer.release(consumer.tickets.back());
    }
    const BrokerReport report = f.report();
    EXPECT_EQ(report.before_steady.batches, 2U);
    EXPECT_EQ(report.last_release_ns - report.steady_since_ns, 3'000'000'000U);
}

}  // namespace
}  // namespace offramp
