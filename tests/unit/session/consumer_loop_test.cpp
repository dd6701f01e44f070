#include "consumer/session/consumer_loop.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/support/pipe.hpp"
#include "tests/unit/session/fake_run.hpp"
#include "tests/unit/session/scripted_producer.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kSession = 6;
constexpr std::uint32_t kConsumerIndex = 1;

// Records the first items that it receives, and behaves as the test sets.
class ScriptedProcessor final : public SlabProcessor {
  public:
    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        items.push_back(slab.samples.front().item);
        if (behaviour) behaviour(progress, still_current);
    }
    std::vector<std::uint64_t> items;
    std::function<void(const Progress&, const StillCurrent&)> behaviour;
};

class ConsumerLoopTest : public ::testing::Test {
  protected:
    void greet() {
        ASSERT_FALSE(loop_.turn());
        ASSERT_TRUE(producer_.receive<Hello>());
    }
    void welcome() {
        greet();
        run_.admit(kConsumerIndex, kSession);
        producer_.send(Welcome{kSession, kConsumerIndex, 1});
        ASSERT_FALSE(loop_.turn());
    }
    void deliver(const std::vector<SlabTicket>& tickets) {
        producer_.send_tickets(kSession, next_delivery_, tickets);
        next_delivery_ += tickets.size();
    }
    // Runs the loop until it ends or is idle.
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
    std::vector<ReleaseKind> receive_kinds() {
        std::vector<ReleaseKind> kinds;
        while (const auto received = producer_.receive_releases())
            for (const ReleaseRecord& record : received->records) {
                kinds.push_back(static_cast<ReleaseKind>(record.kind));
                ++releases_received_;
            }
        return kinds;
    }
    void acknowledge_all() { producer_.send(ReleaseAck{kSession, releases_received_}); }
    std::uint64_t work_word() const { return load_word(run_.heartbeat(kConsumerIndex).work); }

    FakeRun run_;
    SlabMappings mappings_ = SlabMappings::attach(run_.names());
    InMemoryHub hub_;
    ManualClock clock_;
    ScriptedProducer producer_{hub_};
    std::unique_ptr<ConsumerPort> port_ = hub_.consumer_port({.pid = 1000, .uid = 1, .gid = 1});
    ConsumerSession session_{*port_, clock_, {.run_nonce = run_.names().nonce, .window = 3, .program_version = "1"}};
    ScriptedProcessor processor_;
    int made_ = 0;
    bool sink_unreachable_ = false;
    test::Pipe producer_life_;
    test::Pipe lifeline_;
    test::Pipe signals_;
    ConsumerLoop loop_{
        *port_,
        session_,
        mappings_,
        [this](std::uint32_t) -> SlabProcessor& {
            ++made_;
            if (sink_unreachable_) throw Error(ErrorKind::SinkUnavailable, "the test's sink is away");
            return processor_;
        },
        clock_,
        {.producer = producer_life_.read_end(), .lifeline = lifeline_.read_end(), .signals = signals_.read_end()},
        {},
        [this] {
            ++run_observations_;
            if (on_look_) on_look_();
            return liveness_;
        }};
    RunLiveness liveness_ = RunLiveness::Open;
    int run_observations_ = 0;
    std::function<void()> on_look_;
    std::uint64_t next_delivery_ = 1;
    std::uint64_t releases_received_ = 0;
};

TEST_F(ConsumerLoopTest, CreatesNoProcessorBeforeItIsAdmitted) {
    greet();
    ASSERT_FALSE(settle());
    EXPECT_EQ(made_, 0);
    Refused refused{static_cast<std::uint32_t>(RefusalReason::Work), 0, {}};
    put_text(refused.text, "other work");
    producer_.send(refused);
    EXPECT_THROW(settle(), ConfigError);
    EXPECT_EQ(made_, 0);
}

TEST_F(ConsumerLoopTest, WaitsForASlowProducerWhileTheRunIsOpen) {
    greet();
    for (int second = 1; second <= 60; ++second) {
        clock_.advance(ConsumerLoop::kObserveRunEvery);
        ASSERT_FALSE(settle());
        ASSERT_FALSE(settle());
        EXPECT_EQ(run_observations_, second);
    }
    run_.admit(kConsumerIndex, kSession);
    producer_.send(Welcome{kSession, kConsumerIndex, 1});
    ASSERT_FALSE(settle());
    EXPECT_EQ(made_, 1);
}

TEST_F(ConsumerLoopTest, EndsInOrderWhenTheRunClosesUnanswered) {
    greet();
    liveness_ = RunLiveness::Closed;
    ASSERT_FALSE(settle());
    clock_.advance(ConsumerLoop::kObserveRunEvery - std::chrono::nanoseconds(1));
    ASSERT_FALSE(settle()) << "an answer may be under way";
    clock_.advance(std::chrono::nanoseconds(1));
    const auto end = settle();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->error, ErrorKind::None);
    EXPECT_FALSE(end->launcher_gone);
    EXPECT_EQ(made_, 0);
}

TEST_F(ConsumerLoopTest, AcceptsAnAnswerFromBeforeTheClosing) {
    greet();
    liveness_ = RunLiveness::Closed;
    run_.admit(kConsumerIndex, kSession);
    on_look_ = [this] { producer_.send(Welcome{kSession, kConsumerIndex, 1}); };
    clock_.advance(ConsumerLoop::kObserveRunEvery);
    ASSERT_FALSE(settle());
    EXPECT_EQ(made_, 1);
}

TEST_F(ConsumerLoopTest, AnAdmittedConsumerStaysInAClosedRunUntilDrained) {
    welcome();
    ASSERT_FALSE(settle_once_seen(RunLiveness::Closed));
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::Aborted), 0});
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
    EXPECT_TRUE(producer_.receive<Disconnect>());
}

TEST_F(ConsumerLoopTest, AnIdleConsumerEndsInOrderWithoutADrain) {
    welcome();
    EXPECT_EQ(error_at(settle_once_seen(RunLiveness::Over)), ErrorKind::None);
}

TEST_F(ConsumerLoopTest, LosesAReleaseThatTheEndedRunDidNotTake) {
    welcome();
    processor_.behaviour = [this](const Progress&, const StillCurrent&) {
        liveness_ = RunLiveness::Over;
        clock_.advance(ConsumerLoop::kObserveRunEvery);
    };
    deliver({run_.lease_filled(0, 10)});
    EXPECT_EQ(error_at(settle()), ErrorKind::ProducerGone);
    EXPECT_FALSE(receive_kinds().empty()) << "sent, but not acknowledged";
}

TEST_F(ConsumerLoopTest, UsesTheProducersLastMessageOfAnEndedRun) {
    welcome();
    deliver({run_.lease_filled(0, 10)});
    ASSERT_FALSE(settle());
    receive_kinds();
    liveness_ = RunLiveness::Over;
    on_look_ = [this] { acknowledge_all(); };
    clock_.advance(ConsumerLoop::kObserveRunEvery);
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
}

TEST_F(ConsumerLoopTest, LosesARunThatAnotherProducerTookOver) {
    greet();
    EXPECT_EQ(error_at(settle_once_seen(RunLiveness::TakenOver)), ErrorKind::ProducerGone)
        << "as after the first one's death";
}

TEST_F(ConsumerLoopTest, LeavesInOrderWhenItsSinkIsAwayAtTheStart) {
    sink_unreachable_ = true;
    welcome();
    EXPECT_EQ(made_, 1);
    EXPECT_EQ(error_at(settle()), ErrorKind::SinkUnavailable);
    EXPECT_TRUE(processor_.items.empty());
}

TEST_F(ConsumerLoopTest, SendsASlabsReleaseBeforeTheNextSlab) {
    welcome();
    EXPECT_EQ(load_word(run_.heartbeat(kConsumerIndex).session), kSession);
    std::vector<std::size_t> released_at_begin;
    processor_.behaviour = [&](const Progress&, const StillCurrent&) {
        released_at_begin.push_back(receive_kinds().size());
        EXPECT_NE(work_word(), 0U);
    };
    deliver({run_.lease_filled(0, 10), run_.lease_filled(1, 11), run_.lease_filled(2, 12)});
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items, (std::vector<std::uint64_t>{20, 22, 24}));
    EXPECT_EQ(released_at_begin, (std::vector<std::size_t>{0, 1, 1}));
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Completed});
    EXPECT_EQ(work_word(), 0U);
}

TEST_F(ConsumerLoopTest, ReportsProgressAndCurrencyWithoutMessages) {
    welcome();
    const SlabTicket ticket = run_.lease_filled(0, 10);
    processor_.behaviour = [&](const Progress& progress, const StillCurrent& still_current) {
        const std::uint64_t before = load_word(run_.heartbeat(kConsumerIndex).progress);
        progress();
        EXPECT_EQ(load_word(run_.heartbeat(kConsumerIndex).progress), before + 1);
        EXPECT_TRUE(still_current());
        run_.set_word(0, {SlabState::Leased, ticket.attempt + 1, ticket.generation});
        EXPECT_TRUE(still_current()) << "another has it, too; the first to finish completes it";
        run_.set_word(0, {SlabState::Retired, ticket.attempt + 1, ticket.generation});
        EXPECT_FALSE(still_current());
    };
    deliver({ticket});
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items.size(), 1U);
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Returned})
        << "it must not complete a slab that it may not commit";
}

TEST_F(ConsumerLoopTest, CommitsAfterItsLeaseUnlessRedelivered) {
    welcome();
    const SlabTicket ticket = run_.lease_filled(0, 10);
    processor_.behaviour = [&](const Progress&, const StillCurrent& still_current) {
        run_.set_word(0, {SlabState::Ready, ticket.attempt, ticket.generation});
        EXPECT_TRUE(still_current()) << "the ledger would accept its completion, so no other may commit";
    };
    deliver({ticket});
    ASSERT_FALSE(settle());
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Completed});
}

TEST_F(ConsumerLoopTest, ADelayedRefusalHoldsForTheWholeSlab) {
    welcome();
    const SlabTicket ticket = run_.lease_filled(0, 10);
    processor_.behaviour = [&](const Progress&, const StillCurrent& still_current) {
        run_.set_word(0, {SlabState::DeadLettered, ticket.attempt, ticket.generation});
        EXPECT_FALSE(still_current());
        run_.set_word(0, {SlabState::Leased, ticket.attempt, ticket.generation});
        EXPECT_FALSE(still_current()) << "half of its samples may be uncommitted already";
    };
    deliver({ticket});
    ASSERT_FALSE(settle());
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Returned});
}

TEST_F(ConsumerLoopTest, ReturnsAnOvertakenWaitingSlabUnread) {
    welcome();
    const SlabTicket ticket = run_.lease_filled(0, 10);
    run_.set_word(0, {SlabState::Leased, ticket.attempt + 1, ticket.generation});
    deliver({ticket});
    ASSERT_FALSE(settle());
    EXPECT_TRUE(processor_.items.empty());
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Returned});
}

TEST_F(ConsumerLoopTest, ADrainFinishesTheHeldSlabs) {
    welcome();
    deliver({run_.lease_filled(0, 10), run_.lease_filled(1, 11)});
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::RunEnded), 0});
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items.size(), 2U);
    EXPECT_EQ(receive_kinds(), (std::vector{ReleaseKind::Completed, ReleaseKind::Completed}));
    acknowledge_all();
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
    EXPECT_TRUE(producer_.receive<Disconnect>());
}

TEST_F(ConsumerLoopTest, ASignalFinishesTheCurrentSlabAndReturnsTheOthers) {
    welcome();
    processor_.behaviour = [&](const Progress&, const StillCurrent&) {
        signals_.notify();
        clock_.advance(ConsumerLoop::kLookEvery);
    };
    deliver({run_.lease_filled(0, 10), run_.lease_filled(1, 11), run_.lease_filled(2, 12)});
    ASSERT_FALSE(settle());
    EXPECT_EQ(processor_.items.size(), 1U);
    EXPECT_EQ(receive_kinds(), (std::vector{ReleaseKind::Completed, ReleaseKind::Returned, ReleaseKind::Returned}));
    EXPECT_EQ(producer_.receive<Credit>()->window, 0U);
    acknowledge_all();
    EXPECT_EQ(error_at(settle()), ErrorKind::None);
    EXPECT_TRUE(producer_.receive<Disconnect>());
}

TEST_F(ConsumerLoopTest, ASignalBeforeTheWelcomeEndsImmediately) {
    greet();
    signals_.notify();
    EXPECT_EQ(error_at(loop_.turn()), ErrorKind::None);
}

TEST_F(ConsumerLoopTest, FinishesOnlyTheCurrentSlabAfterTheProducersDeath) {
    welcome();
    processor_.behaviour = [&](const Progress&, const StillCurrent&) {
        producer_life_.notify();
        clock_.advance(ConsumerLoop::kLookEvery);
    };
    deliver({run_.lease_filled(0, 10), run_.lease_filled(1, 11)});
    const auto end = settle();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->error, ErrorKind::ProducerGone);
    EXPECT_FALSE(end->launcher_gone);
    EXPECT_EQ(processor_.items.size(), 1U);
}

TEST_F(ConsumerLoopTest, ReportsThatItMayBeTheLastWithoutProducerAndLauncher) {
    welcome();
    processor_.behaviour = [&](const Progress&, const StillCurrent&) {
        lifeline_.close_write_end();
        producer_life_.notify();
    };
    deliver({run_.lease_filled(0, 10)});
    const auto end = settle();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->error, ErrorKind::ProducerGone);
    EXPECT_TRUE(end->launcher_gone);
}

TEST_F(ConsumerLoopTest, AnIdleConsumerLeavesWithItsLauncher) {
    welcome();
    lifeline_.close_write_end();
    const auto end = settle();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->error, ErrorKind::None);
    EXPECT_TRUE(end->launcher_gone);
    EXPECT_TRUE(producer_.receive<Credit>());
    EXPECT_TRUE(producer_.receive<Disconnect>());
}

TEST_F(ConsumerLoopTest, ReceivesADeadProducersLastMessage) {
    welcome();
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::RunEnded), 0});
    producer_life_.notify();
    EXPECT_EQ(error_at(loop_.turn()), ErrorKind::None);
}

// After a producer's death, the run directory shows whether the run has ended.
class WithoutLauncherTest : public ConsumerLoopTest {
  protected:
    std::optional<ConsumerLoop::End> end_when_the_producer_dies(RunLiveness liveness) {
        liveness_ = liveness;
        producer_life_.notify();
        return alone_.turn();
    }

    ErrorKind failure_when_the_producer_dies(RunLiveness liveness) {
        try {
            end_when_the_producer_dies(liveness);
        } catch (const Error& problem) {
            return problem.kind();
        }
        return ErrorKind::None;
    }

    ConsumerLoop alone_{*port_,    session_,
                        mappings_, [this](std::uint32_t) -> SlabProcessor& { return processor_; },
                        clock_,    {.producer = producer_life_.read_end(), .signals = signals_.read_end()},
                        {},        [this] { return liveness_; }};
};

TEST_F(WithoutLauncherTest, AnUnansweringProducerThatEndsItsRunEndsTheConsumer) {
    ASSERT_FALSE(alone_.turn());
    EXPECT_EQ(error_at(end_when_the_producer_dies(RunLiveness::Over)), ErrorKind::None);
}

TEST_F(WithoutLauncherTest, AKilledProducerLeavesItsEndpointAndIsGone) {
    ASSERT_FALSE(alone_.turn());
    EXPECT_EQ(error_at(end_when_the_producer_dies(RunLiveness::Open)), ErrorKind::ProducerGone);
}

TEST_F(WithoutLauncherTest, AKilledProducersReusedDirectoryIsNoOrderlyEnd) {
    ASSERT_FALSE(alone_.turn());
    EXPECT_EQ(failure_when_the_producer_dies(RunLiveness::Replaced), ErrorKind::NoSuchRun);
}

TEST_F(WithoutLauncherTest, SweptMemoryOfAKilledProducerIsNoOrderlyEnd) {
    ASSERT_FALSE(alone_.turn());
    EXPECT_EQ(failure_when_the_producer_dies(RunLiveness::OverAndReplaced), ErrorKind::NoSuchRun);
}

TEST_F(WithoutLauncherTest, ADrainedConsumerEndsInOrder) {
    ASSERT_FALSE(alone_.turn());
    ASSERT_TRUE(producer_.receive<Hello>());
    run_.admit(kConsumerIndex, kSession);
    producer_.send(Welcome{kSession, kConsumerIndex, 1});
    ASSERT_FALSE(alone_.turn());
    producer_.send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::RunEnded), 0});
    EXPECT_EQ(error_at(end_when_the_producer_dies(RunLiveness::Replaced)), ErrorKind::None);
}

TEST_F(WithoutLauncherTest, LosesAReleaseNotTakenBeforeTheEnd) {
    ASSERT_FALSE(alone_.turn());
    ASSERT_TRUE(producer_.receive<Hello>());
    run_.admit(kConsumerIndex, kSession);
    producer_.send(Welcome{kSession, kConsumerIndex, 1});
    deliver({run_.lease_filled(0, 10)});
    for (int turns = 0; processor_.items.empty() && turns < 100; ++turns) ASSERT_FALSE(alone_.turn());
    EXPECT_EQ(error_at(end_when_the_producer_dies(RunLiveness::Over)), ErrorKind::ProducerGone);
}

TEST_F(ConsumerLoopTest, LeavesWithoutALauncherAfterABoundedWait) {
    welcome();
    deliver({run_.lease_filled(0, 10)});
    processor_.behaviour = [&](const Progress&, const StillCurrent&) { lifeline_.close_write_end(); };
    ASSERT_FALSE(settle());
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Completed});  // no acknowledgement comes
    clock_.advance(ConsumerLoop::kOrphanPatience - std::chrono::nanoseconds(1));
    ASSERT_FALSE(settle());
    clock_.advance(std::chrono::nanoseconds(1));
    const auto end = settle();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->error, ErrorKind::None);
    EXPECT_TRUE(end->launcher_gone);
}

TEST_F(ConsumerLoopTest, KeepsAProcessorErrorsKindAndChargesItsText) {
    welcome();
    processor_.behaviour = [](const Progress&, const StillCurrent&) {
        throw Error(ErrorKind::CannotWrite, "the disk is full");
    };
    deliver({run_.lease_filled(0, 10)});
    try {
        settle();
        FAIL() << "no exception";
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::CannotWrite);
    }
    EXPECT_EQ(work_word(), 0U);
    session_.step();
    const auto why = producer_.receive_failure();
    ASSERT_TRUE(why);
    EXPECT_EQ(get_text(why->text), "the disk is full");
    EXPECT_EQ(receive_kinds(), std::vector{ReleaseKind::Failed});
}

TEST_F(ConsumerLoopTest, AMissingSinkReturnsAllSlabsUncharged) {
    welcome();
    processor_.behaviour = [](const Progress&, const StillCurrent&) {
        throw Error(ErrorKind::SinkUnavailable, "no database");
    };
    deliver({run_.lease_filled(0, 10), run_.lease_filled(1, 11)});
    ASSERT_FALSE(settle());
    EXPECT_EQ(work_word(), 0U);
    EXPECT_EQ(processor_.items.size(), 1U);
    EXPECT_EQ(receive_kinds(), (std::vector{ReleaseKind::Returned, ReleaseKind::Returned}));
    acknowledge_all();
    EXPECT_EQ(error_at(settle()), ErrorKind::SinkUnavailable);
}

TEST_F(ConsumerLoopTest, NeverWritesAtAForeignOrMissingIndex) {
    greet();
    run_.admit(kConsumerIndex, kSession + 1);
    producer_.send(Welcome{kSession, kConsumerIndex, 1});
    EXPECT_THROW(loop_.turn(), ProtocolError);
    EXPECT_EQ(load_word(run_.heartbeat(kConsumerIndex).session), 0U);
}

TEST_F(ConsumerLoopTest, RefusesAnIndexBeyondTheTable) {
    greet();
    producer_.send(Welcome{kSession, FakeRun::kConsumerCapacity, 1});
    EXPECT_THROW(loop_.turn(), ProtocolError);
}

struct RefusalCase {
    std::uint32_t reason;
    ErrorKind kind;
};
class RefusedConsumerTest : public ConsumerLoopTest, public ::testing::WithParamInterface<RefusalCase> {};

TEST_P(RefusedConsumerTest, EndsWithTheErrorKindOfTheReason) {
    greet();
    Refused refused{GetParam().reason, 0, {}};
    put_text(refused.text, "the producer's words");
    producer_.send(refused);
    try {
        EXPECT_EQ(error_at(loop_.turn()), ErrorKind::None);
        EXPECT_EQ(GetParam().kind, ErrorKind::None);
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), GetParam().kind);
        EXPECT_NE(std::string(problem.what()).find("the producer's words"), std::string::npos);
    }
}
INSTANTIATE_TEST_SUITE_P(Reasons, RefusedConsumerTest,
                         ::testing::Values(RefusalCase{1, ErrorKind::Protocol}, RefusalCase{2, ErrorKind::NoSuchRun},
                                           RefusalCase{3, ErrorKind::NotPermitted},
                                           RefusalCase{4, ErrorKind::NotPermitted},
                                           RefusalCase{5, ErrorKind::NoSuchRun}, RefusalCase{6, ErrorKind::None},
                                           RefusalCase{99, ErrorKind::Protocol}));

// The loop runs on its own thread, as in the program; the test triggers every event it waits for.
TEST_F(ConsumerLoopTest, WakesForMessagesAndForSignals) {
    std::optional<ConsumerLoop::End> end;
    const SlabTicket ticket = run_.lease_filled(0, 10);
    run_.admit(kConsumerIndex, kSession);
    std::thread consumer([&] { end = loop_.run(); });
    while (!producer_.receive<Hello>()) std::this_thread::yield();
    producer_.send(Welcome{kSession, kConsumerIndex, 1});
    deliver({ticket});
    while (receive_kinds().empty()) std::this_thread::yield();
    acknowledge_all();
    signals_.notify();
    while (!producer_.receive<Disconnect>()) std::this_thread::yield();
    consumer.join();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->error, ErrorKind::None);
    EXPECT_EQ(processor_.items, std::vector<std::uint64_t>{20});
}

}  // namespace
}  // namespace offramp
