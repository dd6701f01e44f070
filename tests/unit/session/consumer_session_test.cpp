#include "consumer/session/consumer_session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <random>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/unit/session/scripted_producer.hpp"

namespace offramp {
namespace {

using State = ConsumerSession::State;
constexpr std::uint64_t kSession = 42;
constexpr std::uint64_t kNonce = 0x1234;

class ConsumerSessionTest : public ::testing::Test {
  protected:
    explicit ConsumerSessionTest(std::size_t queue_capacity = 64) : hub_(queue_capacity) {}

    void welcome() {
        session_.step();
        ASSERT_TRUE(producer_.receive<Hello>());
        producer_.send(Welcome{kSession, 3, 1});
        session_.step();
        ASSERT_EQ(session_.state(), State::Serving);
    }
    void acknowledge(std::uint64_t through) {
        producer_.send(ReleaseAck{kSession, through});
        session_.step();
    }
    SlabTicket taken() {
        const auto ticket = session_.take();
        EXPECT_TRUE(ticket);
        return ticket.value_or(SlabTicket{});
    }

    InMemoryHub hub_;
    ManualClock clock_;
    ScriptedProducer producer_{hub_};
    std::unique_ptr<ConsumerPort> port_ = hub_.consumer_port({.pid = 1000, .uid = 1, .gid = 1});
    ConsumerSession session_{
        *port_, clock_, {.run_nonce = kNonce, .token = 7, .window = 2, .program_version = "9.9.9", .work = 21}};
};

TEST_F(ConsumerSessionTest, SendsHelloOnceAndAnswersTheChallenge) {
    session_.step();
    const auto hello = producer_.receive<Hello>();
    ASSERT_TRUE(hello);
    EXPECT_EQ(hello->token, 7U);
    EXPECT_EQ(hello->window, 2U);
    EXPECT_EQ(hello->previous_session, 0U);
    EXPECT_EQ(hello->work, 21U);
    EXPECT_EQ(get_text(hello->program_version), "9.9.9");

    session_.step();
    EXPECT_TRUE(producer_.receives_nothing());
    producer_.send(Challenge{0xabcdef});
    session_.step();
    const auto answer = producer_.receive<Answer>();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->secret, 0xabcdefU);
    EXPECT_FALSE(session_.welcomed());

    producer_.send(Welcome{kSession, 3, 5});
    session_.step();
    EXPECT_TRUE(session_.welcomed());
    EXPECT_EQ(session_.welcome().consumer_index, 3U);
    EXPECT_EQ(session_.welcome().epoch, 5U);
}

TEST_F(ConsumerSessionTest, AsksForSlabsWhenItIsReadyForThem) {
    ConsumerSession later(*port_, clock_,
                          {.run_nonce = kNonce, .window = 2, .first_window = 0, .program_version = "9.9.9"});
    later.step();
    EXPECT_EQ(producer_.receive<Hello>()->window, 0U);
    producer_.send(Welcome{kSession, 3, 1});
    later.step();
    EXPECT_TRUE(producer_.receives_nothing());
    later.open();
    later.step();
    const auto credit = producer_.receive<Credit>();
    ASSERT_TRUE(credit);
    EXPECT_EQ(credit->session, kSession);
    EXPECT_EQ(credit->window, 2U);
    later.lose_producer();
    later.meet(*port_);
    later.step();
    EXPECT_EQ(producer_.receive<Hello>()->window, 2U) << "the next producer learns it immediately";
}

TEST_F(ConsumerSessionTest, WaitsUntilItIsAnswered) {
    for (int i = 0; i < 100; ++i) {
        session_.step();
        clock_.advance(std::chrono::hours(1));
    }
    EXPECT_EQ(session_.state(), State::Greeting);
    EXPECT_FALSE(session_.take());
}

// The producer forgets a consumer that answers late, and does not say so.
TEST_F(ConsumerSessionTest, RepeatsItsHelloWhenItsAnswerIsIgnored) {
    session_.step();
    ASSERT_TRUE(producer_.receive<Hello>());
    for (const std::uint64_t secret : {1, 2, 3}) {
        clock_.advance(std::chrono::hours(1));
        session_.step();
        EXPECT_TRUE(producer_.receives_nothing()) << "no challenge is unanswered";
        producer_.send(Challenge{secret});
        session_.step();
        EXPECT_EQ(producer_.receive<Answer>()->secret, secret);
        clock_.advance(ConsumerSession::kHelloAgain - std::chrono::nanoseconds(1));
        session_.step();
        EXPECT_TRUE(producer_.receives_nothing());
        clock_.advance(std::chrono::nanoseconds(1));
        session_.step();
        const auto hello = producer_.receive<Hello>();
        ASSERT_TRUE(hello);
        EXPECT_EQ(hello->token, 7U);
    }
    producer_.send(Challenge{4});
    producer_.send(Welcome{kSession, 3, 1});
    session_.step();
    EXPECT_EQ(session_.state(), State::Serving);
    ASSERT_TRUE(producer_.receive<Answer>());
    clock_.advance(std::chrono::hours(1));
    session_.step();
    EXPECT_TRUE(producer_.receives_nothing()) << "it is welcome";
}

TEST_F(ConsumerSessionTest, ReturnsDeliveriesInOrder) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(4), ticket_of(5)});
    session_.step();
    const SlabTicket first = taken();
    EXPECT_EQ(first, ticket_of(4));
    session_.release(first, ReleaseKind::Completed);
    EXPECT_FALSE(session_.all_sent());
    session_.step();
    EXPECT_TRUE(session_.all_sent());
    EXPECT_FALSE(session_.settled());

    const auto received = producer_.receive_releases();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->body.session, kSession);
    EXPECT_EQ(received->body.first_sequence, 1U);
    ASSERT_EQ(received->records.size(), 1U);
    EXPECT_EQ(received->records[0].ticket, ticket_of(4));
    EXPECT_EQ(received->records[0].kind, static_cast<std::uint32_t>(ReleaseKind::Completed));

    const SlabTicket second = taken();
    EXPECT_EQ(second, ticket_of(5));
    session_.release(second, ReleaseKind::Completed);
    session_.step();
    EXPECT_EQ(producer_.receive_releases()->body.first_sequence, 2U);
    acknowledge(2);
    EXPECT_TRUE(session_.settled());
    EXPECT_FALSE(session_.take());
}

TEST_F(ConsumerSessionTest, RepeatsAReleaseUntilItIsAcknowledged) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(4)});
    session_.step();
    session_.release(taken(), ReleaseKind::Completed);
    session_.step();
    EXPECT_TRUE(producer_.receive_releases());
    session_.step();
    EXPECT_FALSE(producer_.receive_releases());
    EXPECT_EQ(session_.until_due(), ReleaseLog::kRepeatEvery);

    clock_.advance(ReleaseLog::kRepeatEvery);
    session_.step();
    const auto again = producer_.receive_releases();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->body.first_sequence, 1U);

    acknowledge(1);
    clock_.advance(ReleaseLog::kRepeatEvery);
    session_.step();
    EXPECT_FALSE(producer_.receive_releases());
}

TEST_F(ConsumerSessionTest, SendsTheReasonOfAFailureBeforeEachRelease) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(4), ticket_of(5)});
    session_.step();
    session_.release(taken(), ReleaseKind::Completed);
    session_.release_failed(taken(), ReleaseKind::Failed, std::string(3000, 'a') + "\xc3\xa4");
    for (int time = 0; time < 2; ++time) {
        session_.step();
        const auto failure = producer_.receive_failure();
        ASSERT_TRUE(failure) << time;
        EXPECT_EQ(failure->session, kSession);
        EXPECT_EQ(failure->sequence, 2U);
        EXPECT_EQ(get_text(failure->text), std::string(2031, 'a')) << "cut to the space";
        const auto received = producer_.receive_releases();
        ASSERT_TRUE(received);
        ASSERT_EQ(received->records.size(), 2U);
        EXPECT_EQ(received->records[1].kind, static_cast<std::uint32_t>(ReleaseKind::Failed));
        clock_.advance(ReleaseLog::kRepeatEvery);
    }
    acknowledge(2);
    clock_.advance(ReleaseLog::kRepeatEvery);
    session_.step();
    EXPECT_TRUE(producer_.receives_nothing());
}

TEST_F(ConsumerSessionTest, AcceptsARepeatedDeliveryOnce) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    session_.step();
    EXPECT_EQ(taken(), ticket_of(1));
    session_.release(ticket_of(1), ReleaseKind::Completed);
    producer_.send_tickets(kSession, 2, {ticket_of(2), ticket_of(3)});
    session_.step();
    EXPECT_EQ(taken(), ticket_of(2));
    EXPECT_EQ(taken(), ticket_of(3));
    EXPECT_FALSE(session_.take());
    EXPECT_EQ(session_.counts().repeated, 3U);
}

TEST_F(ConsumerSessionTest, AMissingDeliveryEndsTheConsumer) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1)});
    producer_.send_tickets(kSession, 3, {ticket_of(3)});
    EXPECT_THAT(test::error_of<ProtocolError>([&] { session_.step(); }, ErrorKind::Protocol),
                testing::HasSubstr("deliveries 2 to 2 of session 42"));
}

TEST_F(ConsumerSessionTest, MoreThanTheWindowEndsTheConsumer) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    session_.step();
    EXPECT_EQ(taken(), ticket_of(1));
    producer_.send_tickets(kSession, 3, {ticket_of(3)});
    EXPECT_THAT(test::error_of<ProtocolError>([&] { session_.step(); }),
                testing::HasSubstr("it would hold 3, but it asked for 2"));
    EXPECT_EQ(taken(), ticket_of(2));
    EXPECT_FALSE(session_.take()) << "it was not accepted";
}

// A Hello to the next producer has room for no more.
TEST_F(ConsumerSessionTest, MoreThanAMessageHoldsEndsTheConsumer) {
    ConsumerSession wide(*port_, clock_, {.run_nonce = kNonce, .window = 1000, .program_version = "9.9.9"});
    wide.step();
    ASSERT_TRUE(producer_.receive<Hello>());
    producer_.send(Welcome{kSession, 3, 1});
    producer_.send_tickets(kSession, 1, std::vector<SlabTicket>(kMaxTicketsPerMessage, ticket_of(1)));
    wide.step();
    producer_.send_tickets(kSession, kMaxTicketsPerMessage + 1, {ticket_of(2)});
    EXPECT_THROW(wide.step(), ProtocolError);
    wide.lose_producer();
    EXPECT_NO_THROW(wide.meet(*port_));
}

TEST_F(ConsumerSessionTest, IgnoresOtherSessionsMessages) {
    welcome();
    producer_.send_tickets(kSession + 1, 1, {ticket_of(1)});
    producer_.send(Drain{kSession + 1, static_cast<std::uint32_t>(DrainReason::Aborted), 0});
    producer_.send(ReleaseAck{kSession + 1, 1});
    session_.step();
    EXPECT_EQ(session_.counts().other_session, 3U);
    EXPECT_FALSE(session_.take());
    EXPECT_EQ(session_.state(), State::Serving);
}

TEST_F(ConsumerSessionTest, IgnoresTicketsBeforeTheWelcome) {
    session_.step();
    ASSERT_TRUE(producer_.receive<Hello>());
    producer_.send_tickets(0, 1, {ticket_of(1)});
    session_.step();
    EXPECT_FALSE(session_.take());
    EXPECT_EQ(session_.counts().other_session, 1U);
}

TEST_F(ConsumerSessionTest, IgnoresASecondWelcomeAndInvalidValues) {
    welcome();
    producer_.send(Welcome{kSession + 1, 9, 9});
    producer_.send_tickets(kSession, 0, {ticket_of(1)});
    producer_.send(ReleaseAck{kSession, 77});
    producer_.send(Drain{kSession, 99, 0});
    producer_.send(Disconnect{kSession});
    session_.step();
    EXPECT_EQ(session_.counts().out_of_place, 5U);
    EXPECT_EQ(session_.welcome().session, kSession);
    EXPECT_EQ(session_.state(), State::Serving);
    EXPECT_FALSE(session_.take());
}

TEST_F(ConsumerSessionTest, ADrainFinishesTheHeldSlabsThenDisconnects) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::ScaleDown), 0});
    session_.step();
    EXPECT_EQ(session_.state(), State::Draining);
    session_.release(taken(), ReleaseKind::Completed);
    session_.release(taken(), ReleaseKind::Completed);
    session_.step();
    EXPECT_EQ(producer_.receive_releases()->records.size(), 2U);
    EXPECT_FALSE(producer_.receive<Disconnect>()) << "before the acknowledgement";
    EXPECT_EQ(session_.state(), State::Draining);

    acknowledge(2);
    const auto disconnect = producer_.receive<Disconnect>();
    ASSERT_TRUE(disconnect);
    EXPECT_EQ(disconnect->session, kSession);
    EXPECT_EQ(session_.state(), State::Ended);
    clock_.advance(std::chrono::seconds(1));
    session_.step();
    EXPECT_TRUE(producer_.receives_nothing());
}

TEST_F(ConsumerSessionTest, AnAbortReturnsOnlySlabsNotBegun) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    session_.step();
    const SlabTicket begun = taken();
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::Aborted), 0});
    session_.step();
    EXPECT_FALSE(session_.take());
    const auto returned = producer_.receive_releases();
    ASSERT_TRUE(returned);
    ASSERT_EQ(returned->records.size(), 1U);
    EXPECT_EQ(returned->records[0].ticket, ticket_of(2));
    EXPECT_EQ(returned->records[0].kind, static_cast<std::uint32_t>(ReleaseKind::Returned));
    acknowledge(1);
    EXPECT_FALSE(producer_.receive<Disconnect>()) << "one is still processed";

    session_.release(begun, ReleaseKind::Completed);
    session_.step();
    acknowledge(2);
    EXPECT_TRUE(producer_.receive<Disconnect>());
}

TEST_F(ConsumerSessionTest, LeavingGrantsNoCreditsAndReturnsLateDeliveries) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    session_.step();
    const SlabTicket begun = taken();
    session_.leave();
    session_.leave();
    session_.step();
    const auto credit = producer_.receive<Credit>();
    ASSERT_TRUE(credit);
    EXPECT_EQ(credit->session, kSession);
    EXPECT_EQ(credit->window, 0U);
    EXPECT_FALSE(producer_.receive<Credit>()) << "once is enough";

    producer_.send_tickets(kSession, 3, {ticket_of(3)});  // sent before the credit was read
    session_.step();
    EXPECT_FALSE(session_.take());
    session_.release(begun, ReleaseKind::Completed);
    session_.step();

    std::vector<ReleaseRecord> all;
    while (const auto received = producer_.receive_releases())
        all.insert(all.end(), received->records.begin(), received->records.end());
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].ticket, ticket_of(2));
    EXPECT_EQ(all[0].kind, static_cast<std::uint32_t>(ReleaseKind::Returned));
    EXPECT_EQ(all[1].ticket, ticket_of(3));
    EXPECT_EQ(all[1].kind, static_cast<std::uint32_t>(ReleaseKind::Returned));
    EXPECT_EQ(all[2].ticket, ticket_of(1));
    EXPECT_EQ(all[2].kind, static_cast<std::uint32_t>(ReleaseKind::Completed));
    acknowledge(3);
    EXPECT_TRUE(producer_.receive<Disconnect>());
    EXPECT_EQ(session_.state(), State::Ended);
}

TEST_F(ConsumerSessionTest, LeavingBeforeTheWelcomeEndsImmediately) {
    session_.step();
    ASSERT_TRUE(producer_.receive<Hello>());
    producer_.send(Challenge{1});
    session_.step();
    ASSERT_TRUE(producer_.receive<Answer>());
    producer_.send(Welcome{kSession, 3, 1});  // under way
    session_.leave();
    session_.leave();
    EXPECT_EQ(session_.state(), State::Ended);
    session_.step();
    EXPECT_FALSE(session_.welcomed());
    const auto disconnect = producer_.receive<Disconnect>();
    ASSERT_TRUE(disconnect);
    EXPECT_EQ(disconnect->session, 0U) << "it knows no session";
    EXPECT_TRUE(producer_.receives_nothing());
}

TEST_F(ConsumerSessionTest, ReturnsEverythingAndLeavesWhenAbandoned) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    session_.step();
    taken();
    session_.abandon();
    session_.step();
    ASSERT_TRUE(producer_.receive<Credit>());
    const auto received = producer_.receive_releases();
    ASSERT_TRUE(received);
    ASSERT_EQ(received->records.size(), 2U);
    for (const ReleaseRecord& record : received->records)
        EXPECT_EQ(record.kind, static_cast<std::uint32_t>(ReleaseKind::Returned));
    producer_.send_tickets(kSession, 9, {ticket_of(3)});  // the one before it is lost: its Disconnect returns both
    acknowledge(2);
    EXPECT_TRUE(producer_.receive<Disconnect>());
    EXPECT_EQ(session_.state(), State::Ended);
}

TEST_F(ConsumerSessionTest, AnotherRunsMessagesChangeNothing) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1)});
    session_.step();
    const SlabTicket ticket = taken();
    session_.release(ticket, ReleaseKind::Completed);
    session_.step();
    producer_.speak_for(kNonce + 1);
    producer_.send(Challenge{1});
    producer_.send(Welcome{kSession, 3, 1});
    producer_.send(Refused{});
    producer_.send_tickets(kSession, 2, {ticket_of(2)});
    producer_.send(ReleaseAck{kSession, 1});
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::Aborted), 0});
    session_.step();
    EXPECT_EQ(session_.counts().other_run, 6U);
    EXPECT_EQ(session_.state(), State::Serving);
    EXPECT_FALSE(session_.take());
    EXPECT_FALSE(session_.settled()) << "its release is not acknowledged";
}

TEST_F(ConsumerSessionTest, KeepsARefusalWithItsText) {
    session_.step();
    ASSERT_TRUE(producer_.receive<Hello>());
    Refused refused{static_cast<std::uint32_t>(RefusalReason::User), 0, {}};
    put_text(refused.text, "user 7 may not");
    producer_.send(refused);
    session_.step();
    EXPECT_EQ(session_.state(), State::Refused);
    EXPECT_EQ(session_.refusal().reason, RefusalReason::User);
    EXPECT_EQ(session_.refusal().text, "user 7 may not");
    session_.leave();
    EXPECT_EQ(session_.state(), State::Refused);
}

TEST_F(ConsumerSessionTest, NamesAProducerOfAnotherVersion) {
    session_.step();
    ASSERT_TRUE(producer_.receive<Hello>());
    Bytes bytes = encode(kNonce, Challenge{1});
    const std::uint16_t version = kMessageVersion + 1;
    std::memcpy(bytes.data() + offsetof(MessageHeader, version), &version, sizeof version);
    producer_.send_bytes(bytes);
    EXPECT_THROW(session_.step(), ProtocolError);
}

TEST_F(ConsumerSessionTest, ReleasingASlabNotHeldIsABug) {
    welcome();
    EXPECT_DEATH(session_.release(ticket_of(1), ReleaseKind::Completed), "take");
}

// For any bytes, the session neither crashes nor returns a slab that was not delivered to it; only a gap in
// the numbering, more than the window and another version end it.
TEST_F(ConsumerSessionTest, IgnoresHostileBytes) {
    welcome();
    const std::vector<Bytes> samples{encode(kNonce, Challenge{1}), encode(kNonce, Welcome{kSession, 1, 1}),
                                     encode(kNonce, ReleaseAck{kSession, 1}), encode(kNonce, Credit{kSession, 1, 0}),
                                     encode(kNonce, Disconnect{kSession})};
    const bool holds = rc::check("mutated and random messages", [&] {
        Bytes bytes = *rc::gen::oneOf(
            rc::gen::elementOf(samples),
            rc::gen::container<Bytes>(rc::gen::map(rc::gen::inRange(0, 256), [](int v) { return std::byte(v); })));
        if (!bytes.empty()) {
            const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
            bytes[at] = std::byte(*rc::gen::inRange(0, 256));
            bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
        }
        const ParsedMessage message = parse_message(bytes);
        // These three may have an effect; the tests above cover them.
        RC_PRE(!message || (message.type != MessageType::Tickets && message.type != MessageType::Drain &&
                            message.type != MessageType::Refused));
        producer_.send_bytes(bytes);
        session_.step();
        while (producer_.receive<Answer>()) {
        }
        RC_ASSERT(session_.state() == State::Serving);
        RC_ASSERT(session_.welcome().session == kSession);
        RC_ASSERT(!session_.take());
        RC_ASSERT(session_.settled());
    });
    EXPECT_TRUE(holds);
}

class WideWindowTest : public ConsumerSessionTest {
  protected:
    void SetUp() override {
        welcome();
        std::vector<SlabTicket> tickets;
        for (std::uint32_t slab = 0; slab < 16; ++slab) tickets.push_back(ticket_of(slab));
        producer_.send_tickets(kSession, 1, tickets);
        session_.step();
    }
    void finish_one(std::chrono::nanoseconds busy) {
        session_.release(taken(), ReleaseKind::Completed, busy);
        session_.send_due();
    }
    std::size_t received_count() {
        const auto releases = producer_.receive_releases();
        return releases ? releases->records.size() : 0;
    }
    ConsumerSession session_{*port_, clock_, {.run_nonce = kNonce, .window = 16, .program_version = "9.9.9"}};

    void welcome() {
        session_.step();
        ASSERT_TRUE(producer_.receive<Hello>());
        producer_.send(Welcome{kSession, 3, 1});
        session_.step();
    }
    SlabTicket taken() { return session_.take().value_or(SlabTicket{}); }
};

TEST_F(WideWindowTest, SendsReleasesOfShortSlabsTogether) {
    const std::chrono::microseconds brief(1);
    for (int i = 0; i < 3; ++i) finish_one(brief);
    EXPECT_EQ(received_count(), 0U);
    EXPECT_TRUE(session_.all_sent()) << "held back on purpose";
    EXPECT_FALSE(session_.settled());
    finish_one(brief);
    EXPECT_EQ(received_count(), 4U) << "a quarter of the window";
}

TEST_F(WideWindowTest, SendsALongSlabsReleaseImmediately) {
    finish_one(std::chrono::microseconds(1));
    finish_one(ConsumerSession::kHoldBack);
    EXPECT_EQ(received_count(), 2U);
    session_.release(taken(), ReleaseKind::Returned);
    session_.send_due();
    EXPECT_EQ(received_count(), 1U) << "a return does not wait, either";
}

TEST_F(WideWindowTest, AddsUpTheTimeOfSeveralSlabs) {
    finish_one(ConsumerSession::kHoldBack / 2);
    EXPECT_EQ(received_count(), 0U);
    finish_one(ConsumerSession::kHoldBack / 2);
    EXPECT_EQ(received_count(), 2U);
    finish_one(ConsumerSession::kHoldBack / 2);
    EXPECT_EQ(received_count(), 0U) << "and starts again";
}

TEST_F(WideWindowTest, HoldsNoReleaseBackWhenIdle) {
    for (int i = 0; i < 15; ++i) finish_one({});
    while (received_count() > 0) {
    }
    finish_one({});
    EXPECT_GT(received_count(), 0U);
    EXPECT_EQ(received_count(), 0U);
}

TEST_F(WideWindowTest, LeavingSendsTheHeldBackReleases) {
    finish_one({});
    session_.leave();
    session_.step();
    EXPECT_EQ(received_count(), 16U);
}

class FullChannelTest : public ConsumerSessionTest {
  protected:
    FullChannelTest() : ConsumerSessionTest(1) {}
};

TEST_F(FullChannelTest, SendsLaterWhenTheChannelIsFull) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1), ticket_of(2)});
    session_.step();
    session_.release(taken(), ReleaseKind::Completed);
    session_.step();  // fills the channel
    session_.release(taken(), ReleaseKind::Completed);
    session_.step();
    EXPECT_FALSE(session_.all_sent());
    EXPECT_LT(session_.until_due(), std::chrono::milliseconds(100));

    EXPECT_TRUE(producer_.receive_releases());
    session_.step();
    EXPECT_TRUE(session_.all_sent());
    const auto second = producer_.receive_releases();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->body.first_sequence, 2U);
}

TEST_F(FullChannelTest, SleepsWhileTheProducerStalls) {
    welcome();
    producer_.send_tickets(kSession, 1, {ticket_of(1)});
    session_.step();
    session_.release(taken(), ReleaseKind::Completed);
    session_.step();  // fills the channel
    clock_.advance(std::chrono::hours(1));
    session_.step();  // the repetition finds no room
    EXPECT_TRUE(session_.all_sent());
    EXPECT_GT(session_.until_due(), std::chrono::nanoseconds{0});

    EXPECT_TRUE(producer_.receive_releases());
    session_.step();
    EXPECT_TRUE(producer_.receive_releases());
}

}  // namespace
}  // namespace offramp
