// A consumer between the death of its producer and the takeover by the next one.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/session/consumer_loop.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/support/pipe.hpp"
#include "tests/unit/session/fake_run.hpp"
#include "tests/unit/session/scripted_producer.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kSession = 6;
constexpr std::uint32_t kConsumerIndex = 1;

class CountingProcessor final : public SlabProcessor {
  public:
    void process(const SlabContents& slab, const Progress&, const StillCurrent&) override {
        items.push_back(slab.samples.front().item);
        if (behaviour) behaviour();
    }
    std::vector<std::uint64_t> items;
    std::function<void()> behaviour;
};

// Finds the next producer once the test has set one.
class ScriptedSearch final : public ProducerSearch {
  public:
    explicit ScriptedSearch(InMemoryHub& hub) : hub_(hub) {}
    void forget() override {
        ++forgotten;
        port_.reset();
    }
    std::optional<Found> look() override {
        if (!there) return std::nullopt;
        there = false;
        life = std::make_unique<test::Pipe>();
        port_ = hub_.consumer_port({.pid = 1000, .uid = 1, .gid = 1});
        return Found{port_.get(), life->read_end()};
    }
    ConsumerPort& first() {
        port_ = hub_.consumer_port({.pid = 1000, .uid = 1, .gid = 1});
        return *port_;
    }
    bool there = false;
    int forgotten = 0;
    std::unique_ptr<test::Pipe> life = std::make_unique<test::Pipe>();

  private:
    InMemoryHub& hub_;
    std::unique_ptr<ConsumerPort> port_;
};

class ProducerRecoveryTest : public ::testing::TestWithParam<bool> {
  protected:
    struct Heard {
        Hello hello{};
        std::vector<SlabTicket> records;
    };
    // The next Hello on the work channel, with its records.
    std::optional<Heard> receive_hello() {
        Inbound inbound;
        while (producer_->try_receive_work(inbound)) {
            const ParsedMessage message = parse_message(inbound.bytes);
            peer_ = inbound.peer;
            if (message.type == MessageType::Hello) return Heard{message.as<Hello>(), message.records_of<Hello>()};
        }
        return std::nullopt;
    }
    std::vector<Releases> receive_releases(std::vector<ReleaseRecord>* records = nullptr) {
        std::vector<Releases> received;
        Inbound inbound;
        while (producer_->try_receive_release(inbound)) {
            const ParsedMessage message = parse_message(inbound.bytes);
            received.push_back(message.as<Releases>());
            for (const ReleaseRecord& record : message.records_of<Releases>())
                if (records != nullptr) records->push_back(record);
        }
        return received;
    }
    template <class Body>
    void send(const Body& body) {
        ASSERT_EQ(producer_->send(peer_, encode(run_.names().nonce, body)), SendOutcome::Sent);
    }
    void deliver(std::uint64_t first, const std::vector<SlabTicket>& tickets) {
        const Bytes message =
            encode(run_.names().nonce, Tickets{kSession, first}, std::span<const SlabTicket>(tickets));
        ASSERT_EQ(producer_->send(peer_, message), SendOutcome::Sent);
    }
    void welcome(std::uint32_t epoch = 1) { send(Welcome{kSession, kConsumerIndex, epoch}); }
    void begin() {
        run_.admit(kConsumerIndex, kSession);
        ASSERT_FALSE(settle());
        ASSERT_TRUE(receive_hello());
        welcome();
        ASSERT_FALSE(settle());
    }
    std::optional<ConsumerLoop::End> settle() {
        for (int i = 0; i < 100; ++i) {
            if (const auto end = loop_.turn()) return end;
            if (loop_.idle()) return std::nullopt;
        }
        ADD_FAILURE() << "the loop does not become idle";
        return std::nullopt;
    }
    // The error with which the loop ended; none while it goes on.
    static std::optional<ErrorKind> error_at(const std::optional<ConsumerLoop::End>& end) {
        return end ? std::optional(end->error) : std::nullopt;
    }
    // From now on the run directory shows it, and the loop has checked.
    std::optional<ConsumerLoop::End> settle_once_seen(RunLiveness liveness) {
        liveness_ = liveness;
        clock_.advance(ConsumerLoop::kObserveRunEvery);
        return settle();
    }
    void kill_producer() {
        search_.life->notify();
        producer_.reset();
    }
    void next_producer() {
        producer_ = hub_.broker_port();
        search_.there = true;
        clock_.advance(ProducerLoss::kSearchEvery);
    }

    FakeRun run_;
    SlabMappings mappings_ = SlabMappings::attach(run_.names());
    InMemoryHub hub_;
    ManualClock clock_;
    std::unique_ptr<BrokerPort> producer_ = hub_.broker_port();
    std::string peer_;
    ScriptedSearch search_{hub_};
    test::Pipe lifeline_;
    test::Pipe signals_;
    CountingProcessor processor_;
    ConsumerPort& port_ = search_.first();
    ConsumerSession session_{port_, clock_, {.run_nonce = run_.names().nonce, .window = 3, .program_version = "1"}};
    ConsumerLoop loop_{port_,
                       session_,
                       mappings_,
                       [this](std::uint32_t) -> SlabProcessor& { return processor_; },
                       clock_,
                       {.producer = search_.life->read_end(),
                        .lifeline = GetParam() ? lifeline_.read_end() : -1,
                        .signals = signals_.read_end()},
                       {.search = &search_, .patience = std::chrono::seconds(60)},
                       [this] { return liveness_; }};
    RunLiveness liveness_ = RunLiveness::Open;
};

TEST_P(ProducerRecoveryTest, FinishesItsSlabsAndReportsThemOnReturn) {
    begin();
    const std::vector<SlabTicket> held{run_.lease_filled(0, 10), run_.lease_filled(1, 11)};
    deliver(1, held);
    processor_.behaviour = [&] {
        if (processor_.items.size() == 1) kill_producer();
        clock_.advance(ConsumerLoop::kLookEvery);
    };
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items.size(), 2U) << "the current one and the waiting one";
    EXPECT_EQ(search_.forgotten, 1) << "the dead one's connection is closed";
    EXPECT_TRUE(session_.away());

    next_producer();
    receive_releases();  // unlike a socket, the hub keeps messages to the dead producer
    ASSERT_FALSE(settle());
    const auto received = receive_hello();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->hello.previous_session, kSession);
    EXPECT_EQ(received->hello.last_delivery, 2U);
    EXPECT_EQ(received->hello.holding, 0U);
    EXPECT_EQ(received->records, held) << "both released, neither acknowledged";
    EXPECT_TRUE(receive_releases().empty()) << "not before the Welcome";
    welcome(2);
    ASSERT_FALSE(settle());
    EXPECT_FALSE(session_.away());
    std::vector<ReleaseRecord> records;
    const auto releases = receive_releases(&records);
    ASSERT_FALSE(releases.empty());
    EXPECT_EQ(releases[0].first_sequence, 1U) << "numbered from 1 again";
    EXPECT_EQ(records.size(), 2U);
    deliver(1, {run_.lease_filled(2, 12)});  // deliveries, too
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items.size(), 3U);
}

TEST_P(ProducerRecoveryTest, NamesSlabsNotBegunFirst) {
    begin();
    const SlabTicket first = run_.lease_filled(0, 10);
    const SlabTicket second = run_.lease_filled(1, 11);
    const SlabTicket third = run_.lease_filled(2, 12);
    deliver(1, {first, second, third});
    processor_.behaviour = [&] {  // dead and succeeded during the first slab
        if (processor_.items.size() == 1) {
            kill_producer();
            next_producer();
        }
        clock_.advance(ProducerLoss::kSearchEvery);
    };
    ASSERT_FALSE(loop_.turn());
    ASSERT_FALSE(loop_.turn());  // sees the death and continues
    ASSERT_FALSE(loop_.turn());  // sees the next producer and continues
    const auto received = receive_hello();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->hello.holding, 1U);
    EXPECT_EQ(received->records, (std::vector{third, first, second}));
    EXPECT_EQ(processor_.items.size(), 3U);
}

TEST_P(ProducerRecoveryTest, EndsInOrderWhenAskedWithoutSlabs) {
    begin();
    kill_producer();
    ASSERT_FALSE(settle());
    signals_.notify();
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
}

TEST_P(ProducerRecoveryTest, EndsInOrderWhenAskedBeforeAdmission) {
    ASSERT_FALSE(settle());
    kill_producer();
    ASSERT_FALSE(settle());
    signals_.notify();
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
}

TEST_P(ProducerRecoveryTest, ReportsALostReleaseWhenAskedToEnd) {
    begin();
    deliver(1, {run_.lease_filled(0, 10)});
    ASSERT_FALSE(settle());
    kill_producer();
    ASSERT_FALSE(settle());
    signals_.notify();
    EXPECT_EQ(error_at(settle()), ErrorKind::ProducerGone);
}

TEST_P(ProducerRecoveryTest, ADrainingConsumerEndsWithItsProducer) {
    begin();
    send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::RunEnded), 0});
    kill_producer();
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
}

TEST_P(ProducerRecoveryTest, WaitsWhileALauncherLivesElseForItsPatience) {
    begin();
    kill_producer();
    ASSERT_FALSE(settle());
    clock_.advance(std::chrono::seconds(60));
    const auto end = settle();
    EXPECT_EQ(end.has_value(), !GetParam());
    if (end) {
        EXPECT_EQ(end->error, ErrorKind::ProducerGone);
    }
}

TEST_P(ProducerRecoveryTest, SurvivesSeveralDeadProducersBeforeAdmission) {
    begin();
    for (int i = 0; i < 3; ++i) {
        kill_producer();
        ASSERT_FALSE(settle());
        next_producer();
        ASSERT_FALSE(settle());
        const auto received = receive_hello();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->hello.previous_session, kSession);
    }
    welcome(4);
    ASSERT_FALSE(settle());
    EXPECT_FALSE(session_.away());
    EXPECT_EQ(search_.forgotten, 3);
}

TEST_P(ProducerRecoveryTest, RefusesAnotherSession) {
    begin();
    kill_producer();
    ASSERT_FALSE(settle());
    next_producer();
    ASSERT_FALSE(settle());
    ASSERT_TRUE(receive_hello());
    send(Welcome{kSession + 1, kConsumerIndex, 2});
    EXPECT_THROW(settle(), ProtocolError);
}

TEST_P(ProducerRecoveryTest, ASignalBetweenProducersReturnsSlabsNotBegun) {
    begin();
    kill_producer();
    ASSERT_FALSE(settle());
    next_producer();
    ASSERT_FALSE(settle());
    ASSERT_TRUE(receive_hello());
    signals_.notify();
    ASSERT_FALSE(settle()) << "the run was found: it leaves in order";
    welcome(2);
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
}

TEST_P(ProducerRecoveryTest, AnUnansweredConsumerJoinsTheRecoveredProducer) {
    ASSERT_FALSE(settle());
    ASSERT_TRUE(receive_hello());
    liveness_ = RunLiveness::TakenOver;
    producer_.reset();
    next_producer();
    clock_.advance(ConsumerLoop::kObserveRunEvery);
    ASSERT_FALSE(settle());
    liveness_ = RunLiveness::Open;
    ASSERT_FALSE(settle());
    EXPECT_EQ(search_.forgotten, 1);
    ASSERT_TRUE(receive_hello());
    run_.admit(kConsumerIndex, kSession);
    welcome(2);
    ASSERT_FALSE(settle());
    deliver(1, {run_.lease_filled(0, 10)});
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items.size(), 1U);
}

TEST_P(ProducerRecoveryTest, EndsInOrderReturningToAClosedRunWithoutSlabs) {
    begin();
    kill_producer();
    ASSERT_FALSE(settle());
    next_producer();
    ASSERT_FALSE(settle());
    EXPECT_EQ(error_at(settle_once_seen(RunLiveness::Closed)), ErrorKind::None);
}

TEST_P(ProducerRecoveryTest, ReportsALostReleaseReturningToAClosedRun) {
    begin();
    deliver(1, {run_.lease_filled(0, 10)});
    ASSERT_FALSE(settle());
    kill_producer();
    ASSERT_FALSE(settle());
    next_producer();
    ASSERT_FALSE(settle());
    EXPECT_EQ(error_at(settle_once_seen(RunLiveness::Closed)), ErrorKind::ProducerGone);
}

INSTANTIATE_TEST_SUITE_P(WithALauncher, ProducerRecoveryTest, ::testing::Values(true, false));

}  // namespace
}  // namespace offramp
