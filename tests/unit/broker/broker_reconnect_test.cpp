// A broker that succeeds a dead one over the same memory, and consumers that return to it.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "producer/broker/run_records.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

// Thrown at the death of a producer.
struct Died {};

// The fixture's producer keeps a record; it dies, and another one takes over.
struct RecoveryFixture : BrokerFixture {
    explicit RecoveryFixture(std::uint32_t slabs = 4) : BrokerFixture(slabs) { make_broker(); }

    void make_broker() {
        BrokerOptions options;
        options.run_nonce = kNonce;
        options.allowed_uids = {1000};
        options.progress = &progress;
        broker = std::make_unique<Broker>(
            ledger, *port, *exchange, watch, clock, heartbeats,
            Broker::SlabMemory{[](std::uint32_t) { return true; },
                               [this](std::uint32_t slab) { return std::span(&bytes[slab], 1); }},
            options);
    }
    // One filled slab, which the test knows while it exists.
    void fill(std::uint64_t batch) {
        broker->step();
        auto loan = exchange->wait_for_slab();
        PublishedSlab slab{.slab = loan->slab(),
                           .first_batch = batch,
                           .samples = 4,
                           .batches_ended = 1,
                           .bytes = 40,
                           .items_through = 4 * (batch + 1)};
        exchange->publish(std::move(*loan), slab);
        filled.push_back(slab);
        broker->step();
    }
    // The producer is dead; the next one has adopted the ledger.
    void succeed() {
        broker.reset();
        port.reset();
        ledger = SlabLedger::adopt({consumer_table, entries}, ledger.epoch() + 1, progress.last_step());
        std::vector<PublishedSlab> in_flight, dead_letters;
        for (std::uint32_t slab = 0; slab < ledger.slab_count(); ++slab) {
            const SlabState state = ledger.word(slab).state;
            if (state != SlabState::Ready && state != SlabState::Leased && state != SlabState::DeadLettered) continue;
            const auto last =
                std::find_if(filled.rbegin(), filled.rend(), [&](const auto& one) { return one.slab == slab; });
            (state == SlabState::DeadLettered ? dead_letters : in_flight).push_back(*last);
        }
        exchange = SlabExchange::make(1);
        port = hub.broker_port();
        make_broker();
        broker->adopt(in_flight, dead_letters);
    }
    SlabState state(std::uint32_t slab) const { return ledger.word(slab).state; }

    RunProgress record{};
    ProgressLog progress{record};
    std::vector<PublishedSlab> filled;
};

// Returns with its holdings or releases; false if it is refused.
bool come_back(RecoveryFixture& f, ScriptedConsumer& consumer, const std::vector<SlabTicket>& kept,
               std::uint64_t session) {
    consumer.port = f.hub.consumer_port({consumer.pid, 1000, 1000});
    consumer.challenge.reset();
    consumer.welcome.reset();
    consumer.tickets.clear();
    consumer.sent = consumer.acknowledged = 0;
    const Hello hello{.token = consumer.token,
                      .previous_session = session,
                      .last_delivery = 0,
                      .holding = static_cast<std::uint32_t>(kept.size()),
                      .window = consumer.window,
                      .program_version = {}};
    consumer.send(hello, std::span<const SlabTicket>(kept));
    if (!consumer.challenge) return false;
    consumer.send(Answer{consumer.challenge->secret});
    return consumer.welcome.has_value();
}

TEST(BrokerReconnect, ASessionContinuesWithItsSlabs) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const auto session = consumer.welcome->session;
    f.fill(0);
    f.fill(1);
    consumer.receive();
    const auto held = consumer.tickets;
    ASSERT_EQ(held.size(), 1U);
    f.succeed();
    EXPECT_TRUE(f.report().conserved());
    EXPECT_EQ(f.report().published.samples, 8U) << "counted by the previous producer";
    ASSERT_TRUE(come_back(f, consumer, held, session));
    EXPECT_EQ(consumer.welcome->session, session);
    EXPECT_EQ(consumer.welcome->epoch, 2U);
    EXPECT_EQ(f.report().consumers.size(), 1U);
    consumer.release(held[0]);  // a ticket of the previous epoch
    EXPECT_EQ(f.report().completed.samples, 4U);
    EXPECT_EQ(f.state(held[0].slab), SlabState::Free);
    ASSERT_EQ(consumer.tickets.size(), 1U) << "it gets the next slab";
    EXPECT_EQ(consumer.tickets[0].epoch, 2U);
}

// It was stopped, or processed a long slab, when the next producer asked it for its secret.
TEST(BrokerReconnect, AConsumerThatAnswersTooLateMayReturnAgain) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const auto session = consumer.welcome->session;
    f.fill(0);
    consumer.receive();
    const auto held = consumer.tickets;
    ASSERT_EQ(held.size(), 1U);
    f.succeed();
    consumer.port = f.hub.consumer_port({consumer.pid, 1000, 1000});
    consumer.challenge.reset();
    consumer.welcome.reset();
    consumer.sent = 0;
    const Hello hello{.token = consumer.token, .previous_session = session, .holding = 1, .window = 2};
    consumer.send(hello, std::span<const SlabTicket>(held));
    ASSERT_TRUE(consumer.challenge);
    f.advance(std::chrono::seconds(6));
    consumer.send(Answer{consumer.challenge->secret});
    EXPECT_FALSE(consumer.welcome) << "it was forgotten";
    consumer.send(hello, std::span<const SlabTicket>(held));
    consumer.send(Answer{consumer.challenge->secret});
    ASSERT_TRUE(consumer.welcome);
    EXPECT_EQ(consumer.welcome->session, session);
    consumer.release(held[0]);
    EXPECT_EQ(f.report().completed.samples, 4U);
}

TEST(BrokerReconnect, RepeatsADeliveryThatNeverArrived) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const auto session = consumer.welcome->session;
    f.fill(0);  // its ticket stays in the dead producer's socket
    ASSERT_EQ(f.report().slabs[static_cast<std::size_t>(SlabState::Leased)], 1U);
    f.succeed();
    ASSERT_TRUE(come_back(f, consumer, {}, session));
    ASSERT_EQ(consumer.tickets.size(), 1U);
    EXPECT_EQ(consumer.tickets[0].attempt, 2U);
    EXPECT_EQ(f.ledger.failures(consumer.tickets[0].slab), 0U);
}

TEST(BrokerReconnect, RefusesAClaimOfAForeignSession) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const auto session = consumer.welcome->session;
    f.fill(0);
    consumer.receive();
    f.succeed();
    ScriptedConsumer impostor(f, 12);
    EXPECT_FALSE(come_back(f, impostor, consumer.tickets, session));
    ASSERT_TRUE(impostor.refused);
    ScriptedConsumer late_consumer(f, 13);
    EXPECT_FALSE(come_back(f, late_consumer, {}, session + 7));
    EXPECT_EQ(f.state(consumer.tickets[0].slab), SlabState::Leased);
    EXPECT_TRUE(come_back(f, consumer, std::vector(consumer.tickets), session));
    ScriptedConsumer again(f, 11);
    EXPECT_FALSE(come_back(f, again, {}, session)) << "a session returns once";
}

TEST(BrokerReconnect, RedeliversADeadConsumersSlabsWithoutACharge) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    f.fill(0);
    consumer.receive();
    consumer.work_on(consumer.tickets[0]);
    f.watch.end(11);
    f.succeed();
    EXPECT_EQ(f.state(consumer.tickets[0].slab), SlabState::Ready);
    EXPECT_EQ(f.ledger.failures(consumer.tickets[0].slab), 0U);
    ScriptedConsumer other(f, 12);
    ASSERT_TRUE(other.join());
    other.receive();
    EXPECT_EQ(other.tickets.size(), 1U);
}

TEST(BrokerReconnect, ReapsAndChargesAnAwaitedConsumerThatDies) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    f.fill(0);
    consumer.receive();
    consumer.work_on(consumer.tickets[0]);
    f.succeed();
    EXPECT_EQ(f.state(consumer.tickets[0].slab), SlabState::Leased);
    consumer.die();
    EXPECT_EQ(f.state(consumer.tickets[0].slab), SlabState::Ready);
    EXPECT_EQ(f.ledger.failures(consumer.tickets[0].slab), 1U);
}

TEST(BrokerReconnect, AnAbsentConsumerLosesItsLeaseButKeepsItsHold) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    f.fill(0);
    consumer.receive();
    f.succeed();
    f.broker->step();
    f.advance(std::chrono::seconds(31));
    f.broker->step();
    EXPECT_EQ(f.state(consumer.tickets[0].slab), SlabState::Ready);
    EXPECT_TRUE(
        f.ledger.holds(consumer.tickets[0].slab, {consumer.welcome->consumer_index, consumer.welcome->session}));
}

TEST(BrokerReconnect, DoesNotRedeliverAGivenUpSlabStillHeld) {
    RecoveryFixture f(2);
    f.fill(0);
    f.progress.count(CountedStep::DeadLetter, f.filled[0], 1);  // it died before the next store
    f.succeed();
    EXPECT_EQ(f.state(f.filled[0].slab), SlabState::Free);
    EXPECT_EQ(f.report().dead_lettered.samples, 4U);
    EXPECT_EQ(f.report().in_flight.samples, 0U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerReconnect, AfterALostWelcomeASessionHoldsNothing) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());  // but its Welcome never reached it
    const auto session = consumer.welcome->session;
    f.fill(0);
    f.succeed();
    ASSERT_TRUE(come_back(f, consumer, {}, 0));
    EXPECT_EQ(consumer.welcome->session, session);
    ASSERT_EQ(consumer.tickets.size(), 1U);
    EXPECT_EQ(consumer.tickets[0].attempt, 2U);
    EXPECT_EQ(f.report().consumers.size(), 1U);
    EXPECT_EQ(f.ledger.admitted().size(), 1U);
}

// Threads of one program share a pid.
TEST(BrokerReconnect, TwoConsumersOfOneProcessKeepTheirSessions) {
    RecoveryFixture f;
    ScriptedConsumer first(f, 11), second(f, 11);
    ASSERT_TRUE(first.join());
    ASSERT_TRUE(second.join());
    f.fill(0);
    f.fill(1);
    first.receive();
    second.receive();
    const auto of_first = first.tickets, of_second = second.tickets;
    ASSERT_EQ(of_first.size(), 1U);
    ASSERT_EQ(of_second.size(), 1U);
    const auto session = first.welcome->session, other = second.welcome->session;
    f.succeed();
    ScriptedConsumer third(f, 11);
    ASSERT_TRUE(third.join()) << "a new one takes no session of the others";
    third.receive();
    EXPECT_TRUE(third.tickets.empty());
    EXPECT_FALSE(come_back(f, third, of_second, other)) << "not even with another's session";
    ASSERT_TRUE(come_back(f, first, of_first, session));
    ASSERT_TRUE(come_back(f, second, of_second, other));
    EXPECT_EQ(first.welcome->session, session);
    EXPECT_EQ(second.welcome->session, other);
    EXPECT_EQ(f.state(of_second[0].slab), SlabState::Leased);
    EXPECT_TRUE(f.ledger.holds(of_second[0].slab, {second.welcome->consumer_index, other}));
    second.release(of_second[0]);
    first.release(of_first[0]);
    EXPECT_EQ(f.report().completed.slabs, 2U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerReconnect, OnlyCountsAHelloWithTooManyHoldings) {
    RecoveryFixture f;
    ScriptedConsumer consumer(f, 11);
    const Hello hello{.previous_session = 1, .last_delivery = 0, .holding = 3, .window = 1, .program_version = {}};
    consumer.send(hello);
    EXPECT_FALSE(consumer.challenge);
    EXPECT_EQ(f.report().refused.at("hello with more holdings than records"), 1U);
}

TEST(ProgressLog, CountsEachStepOnceAndNamesTheLast) {
    RunProgress memory{};
    ProgressLog log(memory);
    EXPECT_EQ(log.last_step().kind, CountedStep::None);
    const PublishedSlab first{
        .slab = 3, .samples = 5, .batches_ended = 1, .bytes = 50, .items_through = 8, .skipped = 3};
    log.count(CountedStep::Publish, first, 7);
    // A batch that was partly published is published again in full: the high-water mark does not go back.
    log.count(CountedStep::Publish, {.slab = 1, .samples = 1, .bytes = 10, .items_through = 6}, 1);
    log.count(CountedStep::Complete, first, 7);
    const ProgressLog next(memory);
    EXPECT_EQ(next.totals().published.samples, 6U);
    EXPECT_EQ(next.totals().published.slabs, 2U);
    EXPECT_EQ(next.totals().completed.bytes, 50U);
    EXPECT_EQ(next.totals().items_through, 8U);
    EXPECT_EQ(next.totals().skipped, 3U);
    EXPECT_EQ(next.last_step().kind, CountedStep::Complete);
    EXPECT_EQ(next.last_step().slab, 3U);
    EXPECT_EQ(next.last_step().generation, 7U);
}

TEST(ProgressLog, IgnoresARecordThatWasNotMadeCurrent) {
    RunProgress memory{};
    ProgressLog log(memory);
    log.count(CountedStep::Publish, {.slab = 0, .samples = 5}, 1);
    RunProgress torn = memory;
    ProgressLog(memory).count(CountedStep::Publish, {.slab = 1, .samples = 7}, 1);
    torn.records = memory.records;  // written, but its writer died before the decisive store
    EXPECT_EQ(ProgressLog(torn).totals().published.samples, 5U);
}

// Producers die at any step of any history; consumers return with true reports. Each published batch is completed once.
RC_GTEST_PROP(BrokerReconnectHistories, LoseNothingAndCountEverythingOnce, ()) {
    RecoveryFixture f(*rc::gen::inRange(1U, 5U));
    struct ReconnectingConsumer {
        std::unique_ptr<ScriptedConsumer> consumer;
        std::vector<SlabTicket> held;
        std::vector<SlabTicket> unacknowledged;
        std::uint64_t session = 0;
    };
    std::vector<ReconnectingConsumer> consumers;
    for (pid_t pid = 11; pid < 14; ++pid) {
        consumers.push_back({std::make_unique<ScriptedConsumer>(f, pid, 2), {}, {}, 0});
        RC_ASSERT(consumers.back().consumer->join());
        consumers.back().session = consumers.back().consumer->welcome->session;
    }
    const auto take_in = [&] {
        for (ReconnectingConsumer& person : consumers) {
            person.consumer->receive();
            for (const SlabTicket& ticket : person.consumer->tickets) person.held.push_back(ticket);
            person.consumer->tickets.clear();
        }
    };
    const auto succeed = [&] {
        f.succeed();
        for (ReconnectingConsumer& person : consumers) {
            std::vector<SlabTicket> kept = person.held;
            kept.insert(kept.end(), person.unacknowledged.begin(), person.unacknowledged.end());
            RC_ASSERT(come_back(f, *person.consumer, kept, person.session));
            RC_ASSERT(person.consumer->welcome->session == person.session);
            for (const SlabTicket& ticket : std::exchange(person.unacknowledged, {})) person.consumer->release(ticket);
        }
    };
    std::uint64_t batches = 0;
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
        take_in();
        ReconnectingConsumer& person = consumers[*rc::gen::inRange(std::size_t{0}, consumers.size())];
        switch (*rc::gen::inRange(0, 6)) {
            case 0:
            case 1:
                if (f.can_fill()) f.fill(batches++);
                break;
            case 2:
            case 3:  // a release that is received, or lost in the socket of a producer that dies first
                if (!person.held.empty()) {
                    const SlabTicket ticket = person.held.back();
                    person.held.pop_back();
                    if (*rc::gen::arbitrary<bool>())
                        person.consumer->release(ticket);
                    else
                        person.unacknowledged.push_back(ticket);
                }
                break;
            case 4:
                succeed();
                break;
            case 5: {  // between the count of a step and the step
                take_in();
                if (person.held.empty()) break;
                const SlabTicket ticket = person.held.back();
                person.held.pop_back();
                person.unacknowledged.push_back(ticket);
                const auto slab = std::find_if(f.filled.rbegin(), f.filled.rend(),
                                               [&](const auto& one) { return one.slab == ticket.slab; });
                const ConsumerRef ref{person.consumer->welcome->consumer_index, person.session};
                try {
                    f.ledger.release(ref, ticket, ReleaseKind::Completed, [&] {
                        f.progress.count(CountedStep::Complete, *slab, ticket.generation);
                        throw Died();
                    });
                } catch (const Died&) {
                }
                succeed();
                break;
            }
        }
        f.broker->step();
        RC_ASSERT(f.report().conserved());
    }
    for (ReconnectingConsumer& person : consumers)
        for (const SlabTicket& ticket : std::exchange(person.unacknowledged, {})) person.consumer->release(ticket);
    for (int round = 0; round < 200 && f.report().in_flight.slabs > 0; ++round) {
        take_in();
        for (ReconnectingConsumer& person : consumers)
            for (const SlabTicket& ticket : std::exchange(person.held, {})) person.consumer->release(ticket);
        f.advance(std::chrono::seconds(1));
    }
    RC_ASSERT(f.report().published.batches == batches);
    RC_ASSERT(f.report().completed.batches == batches);
}

}  // namespace
}  // namespace offramp
