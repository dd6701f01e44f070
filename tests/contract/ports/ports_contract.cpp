#include "tests/contract/ports/ports_contract.hpp"

#include <poll.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp::support {
namespace {

using namespace std::chrono_literals;

// Far beyond any real delay: only a lost message runs into it.
constexpr auto kPatience = 30s;

template <class Try, class Port>
bool wait_for(Port& port, Try try_once) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!try_once()) {
        if (std::chrono::steady_clock::now() > end) return false;
        port.wait({}, 20ms);
    }
    return true;
}

}  // namespace

Bytes bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string text_of(const Bytes& bytes) {
    std::string text(bytes.size(), '\0');
    std::transform(bytes.begin(), bytes.end(), text.begin(), [](std::byte b) { return static_cast<char>(b); });
    return text;
}

std::optional<Inbound> next_work(BrokerPort& broker) {
    Inbound inbound;
    if (!wait_for(broker, [&] { return broker.try_receive_work(inbound); })) return std::nullopt;
    return inbound;
}
std::optional<Inbound> next_release(BrokerPort& broker) {
    Inbound inbound;
    if (!wait_for(broker, [&] { return broker.try_receive_release(inbound); })) return std::nullopt;
    return inbound;
}
std::optional<Bytes> next(ConsumerPort& consumer) {
    Bytes bytes;
    if (!wait_for(consumer, [&] { return consumer.try_receive(bytes); })) return std::nullopt;
    return bytes;
}

MetConsumer meet(PortsPlace& place, BrokerPort& broker) {
    MetConsumer met{place.consumer(), {}};
    EXPECT_TRUE(met.port->send_work(bytes_of("hello")));
    if (auto inbound = next_work(broker)) met.peer = inbound->peer;
    return met;
}

TEST_P(PortsContract, CarriesMessagesBothWays) {
    const auto broker = place_->broker();
    const auto consumer = place_->consumer();
    ASSERT_TRUE(consumer->send_work(bytes_of("hello")));
    const auto hello = next_work(*broker);
    ASSERT_TRUE(hello);
    EXPECT_EQ(text_of(hello->bytes), "hello");
    EXPECT_FALSE(hello->peer.empty());

    ASSERT_EQ(broker->send(hello->peer, bytes_of("ticket")), SendOutcome::Sent);
    const auto ticket = next(*consumer);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(text_of(*ticket), "ticket");

    ASSERT_TRUE(consumer->send_release(bytes_of("release")));
    const auto release = next_release(*broker);
    ASSERT_TRUE(release);
    EXPECT_EQ(text_of(release->bytes), "release");
    EXPECT_TRUE(release->peer.empty());
}

TEST_P(PortsContract, ReportsWhoSentAMessage) {
    const auto broker = place_->broker();
    const auto consumer = place_->consumer();
    ASSERT_TRUE(consumer->send_work(bytes_of("hello")) && consumer->send_release(bytes_of("release")));
    const auto expected = place_->credentials();
    for (const auto& inbound : {next_work(*broker), next_release(*broker)}) {
        ASSERT_TRUE(inbound);
        EXPECT_EQ(inbound->credentials.pid, expected.pid);
        EXPECT_EQ(inbound->credentials.uid, expected.uid);
        EXPECT_EQ(inbound->credentials.gid, expected.gid);
    }
}

TEST_P(PortsContract, HasNothingToReceiveAtFirst) {
    const auto broker = place_->broker();
    const auto consumer = place_->consumer();
    Inbound inbound;
    Bytes bytes;
    EXPECT_FALSE(broker->try_receive_work(inbound));
    EXPECT_FALSE(broker->try_receive_release(inbound));
    EXPECT_FALSE(consumer->try_receive(bytes));
}

TEST_P(PortsContract, AnswersTheConsumerThatAsked) {
    const auto broker = place_->broker();
    const auto first = meet(*place_, *broker);
    const auto second = meet(*place_, *broker);
    EXPECT_NE(first.peer, second.peer);
    EXPECT_EQ(broker->send(second.peer, bytes_of("for the second")), SendOutcome::Sent);
    EXPECT_EQ(broker->send(first.peer, bytes_of("for the first")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*first.port).value()), "for the first");
    EXPECT_EQ(text_of(next(*second.port).value()), "for the second");
    Bytes more;
    EXPECT_FALSE(first.port->try_receive(more));
    EXPECT_FALSE(second.port->try_receive(more));
}

TEST_P(PortsContract, NeverUsesARoutingIdTwice) {
    const auto broker = place_->broker();
    std::set<std::string> seen;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(seen.insert(meet(*place_, *broker).peer).second);
}

TEST_P(PortsContract, ReportsThatAPeerIsUnknown) {
    const auto broker = place_->broker();
    const auto met = meet(*place_, *broker);
    for (const std::string peer : {"", "unknown", "\x01\x02"})
        EXPECT_EQ(broker->send(peer, bytes_of("x")), SendOutcome::PeerGone);
    EXPECT_EQ(broker->send(met.peer, bytes_of("y")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*met.port).value()), "y");
}

TEST_P(PortsContract, ReportsThatAPeerIsGone) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    ASSERT_EQ(broker->send(met.peer, bytes_of("x")), SendOutcome::Sent);
    met.port.reset();
    EXPECT_TRUE(wait_for(*broker, [&] { return broker->send(met.peer, bytes_of("x")) == SendOutcome::PeerGone; }));
}

TEST_P(PortsContract, FillsTheQueueOfAPeerThatNeverReads) {
    const auto broker = place_->broker();
    const auto slow = meet(*place_, *broker);
    const auto other = meet(*place_, *broker);
    const Bytes message(kMaxMessageBytes);
    std::size_t sent = 0;
    SendOutcome outcome = SendOutcome::Sent;
    // Queues count messages, and the kernel's buffers add to them, but both are finite.
    while (sent < 100'000 && (outcome = broker->send(slow.peer, message)) == SendOutcome::Sent) ++sent;
    EXPECT_EQ(outcome, SendOutcome::QueueFull);
    EXPECT_EQ(broker->send(other.peer, bytes_of("not held up")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*other.port).value()), "not held up");

    // Every message reported as sent arrives; then there is room again.
    for (std::size_t i = 0; i < sent; ++i) ASSERT_TRUE(next(*slow.port)) << i << " of " << sent;
    EXPECT_TRUE(wait_for(*broker, [&] { return broker->send(slow.peer, bytes_of("last")) == SendOutcome::Sent; }));
    Bytes last;
    ASSERT_TRUE(wait_for(*slow.port, [&] { return slow.port->try_receive(last) && text_of(last) == "last"; }));
}

TEST_P(PortsContract, FillsTheQueueOfABrokerThatNeverReads) {
    const auto broker = place_->broker();
    const auto met = meet(*place_, *broker);
    const Bytes message(kMaxMessageBytes);
    for (auto send : {&ConsumerPort::send_work, &ConsumerPort::send_release}) {
        std::size_t sent = 0;
        while (sent < 100'000 && ((*met.port).*send)(message)) ++sent;
        EXPECT_LT(sent, 100'000U);
    }
    // It wakes when there is room: its wait() returns, and the same message goes.
    Inbound inbound;
    const std::jthread sender([&, port = met.port.get()] {
        EXPECT_TRUE(wait_for(*port, [&] { return port->send_work(bytes_of("last")); }));
        EXPECT_TRUE(wait_for(*port, [&] { return port->send_release(bytes_of("last")); }));
    });
    bool last_work = false;
    bool last_release = false;
    EXPECT_TRUE(wait_for(*broker, [&] {
        while (broker->try_receive_work(inbound)) last_work = last_work || text_of(inbound.bytes) == "last";
        while (broker->try_receive_release(inbound)) last_release = last_release || text_of(inbound.bytes) == "last";
        return last_work && last_release;
    }));
}

TEST_P(PortsContract, KeepsTheOrderOfEachPeer) {
    constexpr int kMessages = 500;
    const auto broker = place_->broker();
    std::vector<MetConsumer> consumers;
    for (int i = 0; i < 3; ++i) consumers.push_back(meet(*place_, *broker));
    for (int i = 0; i < kMessages; ++i) {
        for (auto& consumer : consumers) {
            ASSERT_TRUE(consumer.port->send_work(bytes_of(std::to_string(i))));
            ASSERT_EQ(broker->send(consumer.peer, bytes_of(std::to_string(i))), SendOutcome::Sent);
        }
    }
    std::map<std::string, int> seen;
    for (int i = 0; i < kMessages * 3; ++i) {
        const auto inbound = next_work(*broker);
        ASSERT_TRUE(inbound);
        EXPECT_EQ(text_of(inbound->bytes), std::to_string(seen[inbound->peer]++));
    }
    for (auto& consumer : consumers)
        for (int i = 0; i < kMessages; ++i) EXPECT_EQ(text_of(next(*consumer.port).value()), std::to_string(i));
}

TEST_P(PortsContract, CarriesAnyBytes) {
    const auto broker = place_->broker();
    const auto met = meet(*place_, *broker);
    rc::check("a message arrives as it was sent", [&](const std::vector<std::uint8_t>& sent) {
        const auto view = std::as_bytes(std::span(sent));
        RC_ASSERT(met.port->send_work(view));
        RC_ASSERT(met.port->send_release(view));
        RC_ASSERT(broker->send(met.peer, view) == SendOutcome::Sent);
        const Bytes expected(view.begin(), view.end());
        RC_ASSERT(next_work(*broker).value().bytes == expected);
        RC_ASSERT(next_release(*broker).value().bytes == expected);
        RC_ASSERT(next(*met.port).value() == expected);
    });
}

TEST_P(PortsContract, CarriesMessagesUpToTheLimit) {
    const auto broker = place_->broker();
    const auto consumer = place_->consumer();
    const Bytes largest(kMaxMessageBytes, std::byte{1});
    const Bytes too_large(kMaxMessageBytes + 1, std::byte{2});
    ASSERT_TRUE(consumer->send_work(largest));
    EXPECT_EQ(next_work(*broker).value().bytes, largest);
    ASSERT_TRUE(consumer->send_release(largest));
    EXPECT_EQ(next_release(*broker).value().bytes, largest);

    consumer->send_work(too_large);
    consumer->send_release(too_large);
    // The message may take down its connection with messages under way; the consumer repeats the message until it
    // arrives.
    const auto echoes = [&](auto send, auto receive) {
        Inbound inbound;
        return wait_for(*broker, [&] {
            ((*consumer).*send)(bytes_of("after"));
            if (!((*broker).*receive)(inbound)) return false;
            EXPECT_EQ(text_of(inbound.bytes), "after");
            return true;
        });
    };
    EXPECT_TRUE(echoes(&ConsumerPort::send_work, &BrokerPort::try_receive_work));
    EXPECT_TRUE(echoes(&ConsumerPort::send_release, &BrokerPort::try_receive_release));
}

TEST_P(PortsContract, WaitsForAMessage) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    // In this test the wait has no timeout: only the message ends it.
    const std::jthread sender([port = met.port.get()] { port->send_release(bytes_of("wake")); });
    Inbound inbound;
    while (!broker->try_receive_release(inbound)) broker->wait({}, 1h);
    EXPECT_EQ(text_of(inbound.bytes), "wake");
}

TEST_P(PortsContract, WaitsForAMessageAtTheConsumer) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    const std::jthread waiter([port = met.port.get()] {
        Bytes bytes;
        while (!port->try_receive(bytes)) port->wait({}, std::chrono::nanoseconds::max());
        EXPECT_EQ(text_of(bytes), "wake");
    });
    EXPECT_EQ(broker->send(met.peer, bytes_of("wake")), SendOutcome::Sent);
}

TEST_P(PortsContract, WaitsForAFileDescriptor) {
    const auto broker = place_->broker();
    const auto met = meet(*place_, *broker);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    const std::array fds{reading.get()};
    ASSERT_EQ(::write(writing.get(), "x", 1), 1);
    broker->wait(fds, 1h);  // would not return within the test's time
    met.port->wait(fds, 1h);
    char byte = 0;
    ASSERT_EQ(::read(reading.get(), &byte, 1), 1);
    writing.reset();  // closing a pipe counts too: a launcher that is gone
    broker->wait(fds, 1h);
    met.port->wait(fds, 1h);
}

TEST_P(PortsContract, AnotherThreadMaySendWhileTheBrokerSleeps) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    std::mutex whose_turn;
    std::unique_lock turn(whose_turn);
    const std::jthread other([&] {
        {
            const std::lock_guard its_turn(whose_turn);  // held by the waiting thread until it sleeps
            EXPECT_EQ(broker->send(met.peer, bytes_of("sent")), SendOutcome::Sent);
        }
        const auto got = next(*met.port);
        ASSERT_TRUE(got);
        EXPECT_EQ(text_of(*got), "sent");
        met.port->send_release(bytes_of("answer"));
    });
    Inbound inbound;
    while (!broker->try_receive_release(inbound)) broker->wait({}, 1h, turn);
    EXPECT_TRUE(turn.owns_lock());
    EXPECT_EQ(text_of(inbound.bytes), "answer");
}

TEST_P(PortsContract, ReportsWhetherMessagesMayWait) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    Inbound inbound;
    ASSERT_FALSE(broker->try_receive_work(inbound) || broker->try_receive_release(inbound));
    EXPECT_FALSE(broker->may_have_messages());
    met.port->send_release(bytes_of("one"));
    broker->wait({}, 1h);
    // A connection event may wake it first; the message is there when it is received.
    while (!broker->try_receive_release(inbound)) broker->wait({}, 1h);
    EXPECT_EQ(text_of(inbound.bytes), "one");
}

// The descriptors of a port, for a thread that waits elsewhere.
TEST_P(PortsContract, SignalsAMessageToAThreadThatWaitsElsewhere) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    for (const auto send : {&ConsumerPort::send_work, &ConsumerPort::send_release}) {
        ASSERT_TRUE((*met.port.*send)(bytes_of("came")));
        Inbound inbound;
        while (!broker->try_receive_work(inbound) && !broker->try_receive_release(inbound)) {
            std::vector<int> fds;
            if (!broker->prepare_wait(fds)) continue;
            std::vector<pollfd> polled;
            for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
            ASSERT_GT(::poll(polled.data(), polled.size(), std::chrono::milliseconds(kPatience).count()), 0);
        }
        EXPECT_EQ(text_of(inbound.bytes), "came");
        std::vector<int> fds;
        while (!broker->prepare_wait(fds)) ASSERT_FALSE(broker->try_receive_work(inbound));
        EXPECT_FALSE(fds.empty());
    }
}

// Sending may consume the descriptor's signal that a message has arrived; no thread would wake for it again.
TEST_P(PortsContract, SeesAMessageThatArrivedBeforeASend) {
    const auto broker = place_->broker();
    auto met = meet(*place_, *broker);
    Inbound inbound;
    ASSERT_FALSE(broker->try_receive_work(inbound) || broker->try_receive_release(inbound));
    ASSERT_TRUE(met.port->send_work(bytes_of("came")));
    const auto end = std::chrono::steady_clock::now() + 30s;
    do {
        ASSERT_LT(std::chrono::steady_clock::now(), end);
        ASSERT_EQ(broker->send(met.peer, bytes_of("sent")), SendOutcome::Sent);
        std::this_thread::sleep_for(1ms);
    } while (!broker->may_have_messages());
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_EQ(text_of(inbound.bytes), "came");
}

TEST_P(PortsContract, ReturnsAtTheTimeout) {
    const auto broker = place_->broker();
    const auto met = meet(*place_, *broker);
    for (const auto timeout :
         {std::chrono::nanoseconds(-5), std::chrono::nanoseconds(0), std::chrono::nanoseconds(1)}) {
        broker->wait({}, timeout);
        met.port->wait({}, timeout);
    }
}

TEST_P(PortsContract, RefusesASecondBroker) {
    auto broker = place_->broker();
    try {
        place_->broker();
        FAIL() << "two brokers serve one meeting place";
    } catch (const SystemError& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::RunInUse);
    }
    const auto met = meet(*place_, *broker);
    EXPECT_EQ(broker->send(met.peer, bytes_of("still here")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*met.port).value()), "still here");
}

TEST_P(PortsContract, LetsAConsumerMeetTheNextBroker) {
    auto broker = place_->broker();
    const auto met = meet(*place_, *broker);
    broker.reset();
    broker = place_->broker();
    std::optional<Inbound> again;
    EXPECT_TRUE(wait_for(*broker, [&] {
        met.port->send_work(bytes_of("hello again"));
        Inbound inbound;
        if (broker->try_receive_work(inbound)) again = inbound;
        return again.has_value();
    }));
    ASSERT_TRUE(again);
    EXPECT_EQ(broker->send(again->peer, bytes_of("welcome")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*met.port).value()), "welcome");
}

TEST_P(PortsContract, LetsAConsumerComeFirst) {
    const auto consumer = place_->consumer();
    ASSERT_TRUE(consumer->send_work(bytes_of("early")));
    const auto broker = place_->broker();
    EXPECT_EQ(text_of(next_work(*broker).value().bytes), "early");
}

// Each consumer sends, receives and leaves on its own thread.
TEST_P(PortsContract, ServesManyConsumersAtOnce) {
    constexpr int kConsumers = 4;
    constexpr int kRounds = 200;
    const auto broker = place_->broker();
    std::vector<std::jthread> threads;
    for (int i = 0; i < kConsumers; ++i) {
        threads.emplace_back([this] {
            const auto port = place_->consumer();
            for (int round = 0; round < kRounds; ++round) {
                const std::string text = std::to_string(round);
                EXPECT_TRUE(wait_for(*port, [&] { return port->send_work(bytes_of(text)); }));
                EXPECT_EQ(text_of(next(*port).value_or(bytes_of("(nothing)"))), text);
                EXPECT_TRUE(wait_for(*port, [&] { return port->send_release(bytes_of(text)); }));
            }
            // Its releases are lost with it unless the broker received them, so it stays until the broker confirms.
            EXPECT_EQ(text_of(next(*port).value_or(bytes_of("(nothing)"))), "taken");
        });
    }
    std::set<std::string> peers;
    int releases = 0;
    Inbound inbound;
    EXPECT_TRUE(wait_for(*broker, [&] {
        while (broker->try_receive_release(inbound)) ++releases;
        while (broker->try_receive_work(inbound)) {
            peers.insert(inbound.peer);
            EXPECT_EQ(broker->send(inbound.peer, inbound.bytes), SendOutcome::Sent);
        }
        return releases == kConsumers * kRounds;
    }));
    EXPECT_EQ(peers.size(), static_cast<std::size_t>(kConsumers));
    for (const auto& peer : peers) EXPECT_EQ(broker->send(peer, bytes_of("taken")), SendOutcome::Sent);
}

}  // namespace offramp::support
