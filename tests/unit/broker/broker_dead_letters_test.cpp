#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "common/dead_letters/payload_file.hpp"
#include "producer/broker/dead_letter_writer.hpp"
#include "tests/unit/broker/broker_fixture.hpp"
#include "tests/unit/dead_letters/filled_slab.hpp"

namespace offramp {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// A broker whose dead letters go to a real folder. Slabs are described as FilledSlab describes them, in any requested
// generation.
class BrokerDeadLetters : public testing::Test {
  protected:
    void SetUp() override { std::filesystem::create_directories(root_); }
    ~BrokerDeadLetters() override {
        writer_.reset();  // ends its thread, which may still write a file
        std::filesystem::remove_all(root_);
    }

    BrokerOptions with_folder(BrokerOptions options = {}) {
        writer_ = std::make_shared<DeadLetterWriter>(
            DeadLetterWriter::Settings{.folder = folder_,
                                       .run_id = "made-up",
                                       .run_nonce = FilledSlab::kNonce,
                                       .bytes_of =
                                           [this](std::uint32_t slab) {
                                               // The disk blocks until the test releases it.
                                               std::unique_lock lock(gate_mutex_);
                                               gate_.wait(lock, [this] { return open_; });
                                               auto filled = std::make_shared<FilledSlab>(slab, 1);
                                               return DeadLetterWriter::SlabBytes{filled->memory, filled};
                                           },
                                       .on_outcome = [] {}});
        options.dead_letters = writer_;
        return options;
    }
    void open_gate() {
        {
            const std::lock_guard lock(gate_mutex_);
            open_ = true;
        }
        gate_.notify_all();
    }
    void close_gate() {
        const std::lock_guard lock(gate_mutex_);
        open_ = false;
    }
    // Enough consumers die of the slab; each works on the first slab that it receives.
    void take_down(BrokerFixture& f, std::uint32_t deaths = 3) {
        for (std::uint32_t i = 0; i < deaths; ++i) {
            ScriptedConsumer consumer(f, next_pid_++, 1);
            ASSERT_TRUE(consumer.join());
            consumer.receive();
            ASSERT_EQ(consumer.tickets.size(), 1U);
            consumer.work_on(consumer.tickets[0]);
            consumer.die();
        }
    }
    static std::uint32_t count(const BrokerReport& report, SlabState state) {
        return report.slabs[static_cast<std::size_t>(state)];
    }

    const std::string root_ = testing::TempDir() + "broker_dead_letter_test." + std::to_string(::getpid());
    const std::string folder_ = root_ + "/dead-letters";
    std::mutex gate_mutex_;
    std::condition_variable gate_;
    bool open_ = true;
    pid_t next_pid_ = 20;
    std::shared_ptr<DeadLetterWriter> writer_;
};

TEST_F(BrokerDeadLetters, FreesTheSlabOnceItsPayloadIsOnTheDisk) {
    close_gate();
    BrokerFixture f(1, with_folder());
    f.publish(7);
    take_down(f);
    EXPECT_EQ(count(f.report(), SlabState::DeadLettered), 1U);
    EXPECT_EQ(f.report().shortage_reason, kShortageDeadLetters);
    EXPECT_TRUE(f.report().conserved());
    EXPECT_FALSE(f.can_fill()) << "it is not on the disk yet";
    open_gate();
    writer_->wait_until_idle();
    EXPECT_TRUE(f.can_fill());
    const BrokerReport report = f.report();
    ASSERT_EQ(report.dead_letters->size(), 1U);
    EXPECT_EQ(report.dead_letters->at(0).payload, folder_ + "/batch-7-row-2.safetensors");
    EXPECT_EQ(report.dead_letters->at(0).error, "");
    EXPECT_EQ(PayloadFile(report.dead_letters->at(0).payload).slab().samples[0].key, "photos/cat");
    EXPECT_EQ(report.dead_lettered.samples, 4U);
    EXPECT_TRUE(report.conserved());
}

TEST_F(BrokerDeadLetters, ALateHolderStillKeepsTheMemory) {
    BrokerFixture f(1, with_folder());
    JoinedConsumer late(f, 11, 1);
    late.take(7);
    ASSERT_EQ(late.tickets.size(), 1U);
    f.advance(seconds(31));
    f.broker->step();
    take_down(f);
    writer_->wait_until_idle();
    f.broker->step();
    EXPECT_EQ(count(f.report(), SlabState::Retired), 1U);
    EXPECT_EQ(f.report().shortage_reason, kShortageHeld);
    EXPECT_FALSE(f.can_fill());
    late.release(late.tickets[0]);
    EXPECT_EQ(f.report().completed.samples, 0U) << "a given-up slab is not counted twice";
    EXPECT_TRUE(f.can_fill());
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerDeadLetters, TheWriterHoldsAtMostATenthOfThePool) {
    close_gate();
    BrokerFixture f(20, with_folder());
    ScriptedConsumer healthy(f, 11, 1);
    for (std::uint64_t batch = 0; batch < 4; ++batch) f.publish(batch);
    for (int poisoned = 0; poisoned < 4; ++poisoned) take_down(f);
    EXPECT_EQ(count(f.report(), SlabState::DeadLettered), 4U);
    EXPECT_EQ(f.report().dead_letters->size(), 4U);
    healthy.join();
    healthy.take(9);
    ASSERT_EQ(healthy.tickets.size(), 1U);
    healthy.release(healthy.tickets[0]);
    EXPECT_EQ(f.report().completed.slabs, 1U) << "a hanging disk stops no consumer while there are slabs";
    // The writer has only two of the four: after writing them, two remain until the broker hands it more.
    open_gate();
    writer_->wait_until_idle();
    f.broker->step();
    EXPECT_EQ(count(f.report(), SlabState::DeadLettered), 2U);
    writer_->wait_until_idle();
    f.broker->step();
    EXPECT_EQ(count(f.report(), SlabState::DeadLettered), 0U);
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerDeadLetters, CountsAnUnwritableDeadLetterAndContinues) {
    std::filesystem::create_directories(folder_);
    std::filesystem::create_directory(folder_ + "/batch-7-row-2.safetensors.new");
    BrokerFixture f(1, with_folder());
    f.publish(7);
    take_down(f);
    writer_->wait_until_idle();
    EXPECT_TRUE(f.can_fill());
    const BrokerReport report = f.report();
    EXPECT_EQ(report.payloads_lost, 1U);
    EXPECT_EQ(report.dead_letters->at(0).payload, "");
    EXPECT_THAT(report.dead_letters->at(0).error, HasSubstr("File exists"));
    EXPECT_EQ(report.dead_lettered.samples, 4U);
    EXPECT_TRUE(report.conserved());
}

TEST_F(BrokerDeadLetters, TheRunEndsOnceDeadLettersAreOnTheDisk) {
    close_gate();
    BrokerFixture f(2, with_folder());
    f.publish(7);
    take_down(f);
    f.exchange->finish();
    f.advance(seconds(100));
    f.broker->step();
    f.advance(seconds(100));
    f.broker->step();
    EXPECT_FALSE(f.broker->ended());
    open_gate();
    writer_->wait_until_idle();
    f.broker->step();
    EXPECT_TRUE(f.broker->ended());
    EXPECT_EQ(f.report().slabs[static_cast<std::size_t>(SlabState::Free)], 2U);
}

TEST_F(BrokerDeadLetters, TheNextProducerWritesADeadOnesDeadLetters) {
    RunProgress record{};
    ProgressLog progress(record);
    BrokerOptions options = with_folder();
    options.progress = &progress;
    close_gate();
    BrokerFixture f(2, options);
    f.publish(0);
    f.publish(1);
    take_down(f);
    take_down(f);
    f.broker->step();
    ASSERT_EQ(count(f.report(), SlabState::DeadLettered), 2U) << "the writer has one, and one waits";
    open_gate();
    writer_->wait_until_idle();
    f.broker.reset();  // it dies before it learns of either
    std::filesystem::remove_all(folder_);

    SlabLedger adopted = SlabLedger::adopt({f.consumer_table, f.entries}, 2, progress.last_step());
    BrokerOptions next = with_folder();
    next.progress = &progress;
    next.allowed_uids = {1000};
    Broker successor(
        adopted, *f.port, *f.exchange, f.watch, f.clock, f.heartbeats,
        Broker::SlabMemory{[](std::uint32_t) { return true; }, [](std::uint32_t) { return std::span<std::byte>{}; }},
        next);
    const std::vector<PublishedSlab> dead_letters{
        {.slab = 0, .first_batch = 0, .samples = 4, .batches_ended = 1, .bytes = 40},
        {.slab = 1, .first_batch = 1, .samples = 4, .batches_ended = 1, .bytes = 40}};
    successor.adopt({}, dead_letters);
    for (int round = 0; round < 3; ++round) {
        successor.step();
        writer_->wait_until_idle();
    }
    const BrokerReport report = successor.report();
    EXPECT_EQ(count(report, SlabState::DeadLettered), 0U);
    EXPECT_EQ(report.dead_lettered.slabs, 2U) << "only the dead producer counted it";
    ASSERT_EQ(report.dead_letters->size(), 2U);
    for (const DeadLetter& slab : report.dead_letters->all()) {
        EXPECT_EQ(slab.deaths, 3U) << "the ledger keeps the count";
        EXPECT_TRUE(std::filesystem::exists(slab.payload)) << slab.error;
    }
    EXPECT_TRUE(report.conserved());
}

TEST_F(BrokerDeadLetters, AnAbandonedRunReportsUnwrittenDeadLetters) {
    close_gate();
    BrokerFixture f(2, with_folder());
    f.publish(7);
    take_down(f);
    f.broker->abort();
    f.broker->step();
    EXPECT_FALSE(f.broker->ended());
    f.advance(seconds(6));
    f.broker->step();
    EXPECT_TRUE(f.broker->ended()) << "a hanging disk does not hold up an abandoned run";
    EXPECT_THAT(f.report().dead_letters->at(0).error, HasSubstr("before it was written"));
    EXPECT_TRUE(f.report().conserved());
    open_gate();
}

// --- charges ---

TEST_F(BrokerDeadLetters, DrainsReturnsAndExpiredLeasesDoNotCharge) {
    BrokerFixture f(1);
    f.publish(0);
    for (pid_t pid = 11; pid < 17; ++pid) {
        ScriptedConsumer consumer(f, pid, 1);
        ASSERT_TRUE(consumer.join());
        f.advance(seconds(10));
        f.broker->step();
        consumer.receive();
        ASSERT_EQ(consumer.tickets.size(), 1U) << pid;
        consumer.work_on(consumer.tickets[0]);
        if (pid % 3 == 0) {
            f.advance(seconds(31));
            f.broker->step();
        }
        consumer.release(consumer.tickets[0], ReleaseKind::Returned);
        consumer.port->send_work(of_run(Disconnect{consumer.welcome->session}));
        f.broker->step();
    }
    EXPECT_EQ(f.ledger.failures(0), 0U);
    EXPECT_EQ(f.report().dead_letters->size(), 0U);
}

TEST_F(BrokerDeadLetters, ARepeatedlyReturnedSlabWaitsLongerEachTime) {
    BrokerFixture f(1);
    f.publish(0);
    std::chrono::nanoseconds waited{};
    std::vector<std::chrono::nanoseconds> waits;
    for (pid_t pid = 11; pid < 16; ++pid) {
        ScriptedConsumer consumer(f, pid, 1);
        ASSERT_TRUE(consumer.join());
        for (waited = {}; consumer.tickets.empty(); waited += std::chrono::milliseconds(100)) {
            f.advance(std::chrono::milliseconds(100));
            consumer.receive();
            ASSERT_LT(waited, seconds(60));
        }
        waits.push_back(waited);
        // The Credit that announces the leaving overtakes the release.
        consumer.port->send_work(of_run(Credit{consumer.welcome->session, 0, 0}));
        f.broker->step();
        consumer.release(consumer.tickets[0], ReleaseKind::Returned);
        consumer.die();
    }
    EXPECT_TRUE(std::is_sorted(waits.begin(), waits.end()));
    EXPECT_LE(waits[1], std::chrono::milliseconds(100)) << "a leaving consumer's single return causes no delay";
    EXPECT_GE(waits[4], std::chrono::milliseconds(400));
    EXPECT_EQ(f.ledger.failures(0), 0U);
}

// --- failures that consumers report ---

TEST_F(BrokerDeadLetters, ChargesAFailureWithItsReasonAndDeliversTheNextSlab) {
    open_gate();
    BrokerFixture f(2, with_folder());
    f.publish(0);
    ScriptedConsumer consumer(f, 11, 1);
    ASSERT_TRUE(consumer.join());
    for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
        ASSERT_EQ(consumer.tickets.size(), attempt) << "immediately, as no consumer is missing";
        Failure failure{.session = consumer.welcome->session, .sequence = consumer.sent + 1, .text = {}};
        put_text(failure.text, "Traceback\nValueError: \x1b[31m" + std::to_string(attempt));
        consumer.port->send_release(of_run(failure));
        consumer.release(consumer.tickets.back(), ReleaseKind::Failed);
        f.broker->step();
        consumer.receive();
    }
    EXPECT_EQ(consumer.tickets.size(), 3U) << "it is given up";
    consumer.take(1);
    ASSERT_EQ(consumer.tickets.size(), 4U);
    consumer.release(consumer.tickets.back());
    writer_->wait_until_idle();
    f.broker->step();
    const BrokerReport report = f.report();
    EXPECT_TRUE(report.conserved());
    EXPECT_EQ(report.completed.samples, 4U);
    ASSERT_EQ(report.dead_letters->size(), 1U);
    EXPECT_EQ(report.dead_letters->at(0).deaths, 0U);
    EXPECT_EQ(report.dead_letters->at(0).failures, 3U);
    EXPECT_EQ(report.dead_letters->at(0).reason, "it failed 3 times: ValueError: \\x1b[31m3")
        << "escaped for a terminal";
    EXPECT_EQ(report.last_failure, "Traceback\nValueError: \\x1b[31m3");
    EXPECT_EQ(report.releases[static_cast<std::size_t>(ReleaseOutcome::Failed)], 3U);
}

TEST_F(BrokerDeadLetters, GivesUpARejectedSlabImmediatelyEvenWithoutAReason) {
    BrokerFixture f(1);
    f.publish(0);
    ScriptedConsumer consumer(f, 11, 1);
    ASSERT_TRUE(consumer.join());
    consumer.release(consumer.tickets.at(0), ReleaseKind::Rejected);
    f.broker->step();
    ASSERT_EQ(f.report().dead_letters->size(), 1U);
    EXPECT_EQ(f.report().dead_letters->at(0).reason, "a consumer rejected it");
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerDeadLetters, DropsForeignReasonsAndThoseWithoutARelease) {
    BrokerFixture f(1);
    f.publish(0);
    ScriptedConsumer consumer(f, 11, 1);
    ASSERT_TRUE(consumer.join());
    ScriptedConsumer other(f, 12, 1);
    ASSERT_TRUE(other.join());
    other.port->send_release(of_run(Failure{.session = consumer.welcome->session, .sequence = 1, .text = {'x'}}));
    for (std::uint64_t sequence = 1; sequence <= kMaxTicketsPerMessage + 1; ++sequence)
        consumer.port->send_release(
            of_run(Failure{.session = consumer.welcome->session, .sequence = sequence, .text = {'y'}}));
    f.broker->step();
    std::uint64_t refused = 0;
    for (const auto& [reason, times] : f.report().refused) refused += times;
    EXPECT_EQ(refused, 2U);
    consumer.release(consumer.tickets.at(0), ReleaseKind::Failed);
    EXPECT_EQ(f.report().last_failure, "y");
    EXPECT_EQ(f.ledger.failures(0), 1U);
}

TEST_F(BrokerDeadLetters, ChargesAnOvertakenConsumersFailureAlone) {
    BrokerFixture f(1);
    f.publish(0);
    ScriptedConsumer slow(f, 11, 1);
    ASSERT_TRUE(slow.join());
    slow.work_on(slow.tickets.at(0));
    f.advance(seconds(31));
    ScriptedConsumer other(f, 12, 1);
    ASSERT_TRUE(other.join());
    f.broker->step();
    other.receive();
    ASSERT_EQ(other.tickets.size(), 1U);
    slow.release(slow.tickets[0], ReleaseKind::Failed);
    EXPECT_EQ(f.ledger.failures(0), 1U);
    other.release(other.tickets[0]);
    EXPECT_EQ(f.report().completed.samples, 4U);
    EXPECT_TRUE(f.can_fill()) << "without failures";
}

// --- stalled ---

TEST_F(BrokerDeadLetters, KillsAStalledConsumerAndWaitsForItsDeath) {
    BrokerFixture f(1, {.kill_stalled = true});
    JoinedConsumer hung(f, 11, 1);
    hung.take(0);
    hung.work_on(hung.tickets[0]);
    f.advance(seconds(1));  // sees its last heartbeat
    f.advance(seconds(29));
    f.broker->step();
    EXPECT_EQ(f.report().stalled_killed, 0U);
    f.advance(seconds(1));
    EXPECT_EQ(f.report().stalled_killed, 1U);
    EXPECT_EQ(f.report().visibility_timeouts, 1U);
    EXPECT_EQ(f.report().consumers.at(0).end, "") << "it is dead only once its pidfd reports it";
    EXPECT_FALSE(f.ledger.holders(0).empty());
    f.broker->step();
    EXPECT_EQ(f.report().consumers.at(0).end, "died");
    EXPECT_EQ(f.ledger.failures(0), 1U) << "the batch it hung on is charged";
    EXPECT_TRUE(f.ledger.holders(0).empty());
    EXPECT_EQ(f.ledger.word(0).state, SlabState::Ready);
}

TEST_F(BrokerDeadLetters, KillsNoConsumerWithoutKillStalled) {
    BrokerFixture f(1);
    JoinedConsumer hung(f, 11, 1);
    f.publish(0);
    f.advance(seconds(31));
    f.broker->step();
    f.broker->step();
    EXPECT_EQ(f.report().stalled_killed, 0U);
    EXPECT_EQ(f.report().visibility_timeouts, 1U);
    EXPECT_EQ(f.report().consumers.at(0).end, "");
    EXPECT_TRUE(f.report().consumers.at(0).stalled);
}

// Only a stalled consumer that the run waits for is reported, and repeatedly: the run may hang on it forever.
TEST_F(BrokerDeadLetters, RemindsOfAStalledConsumerAtIntervals) {
    std::ostringstream log_text;
    const auto usual = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_text)));
    BrokerFixture f(1);
    JoinedConsumer hung(f, 11, 1);
    hung.take(0);
    hung.work_on(hung.tickets[0]);
    f.advance(seconds(31 + 4 * 60 + 10));
    f.broker->step();
    const auto warnings = [&] {
        std::size_t times = 0;
        for (std::size_t at = 0; (at = log_text.str().find("it is not killed", at)) != std::string::npos; ++at) ++times;
        return times;
    };
    EXPECT_EQ(warnings(), 3U) << "after 60, 120 and 240 s\n" << log_text.str();
    hung.release(hung.tickets[0]);
    f.advance(seconds(600));
    EXPECT_EQ(warnings(), 3U) << "it makes progress";
    spdlog::set_default_logger(usual);
    EXPECT_THAT(log_text.str(), HasSubstr("consumer 1 (pid 11) has made no progress for 60.0 s and keeps 1 slab:"));
}

TEST_F(BrokerDeadLetters, AConsumerThatCannotBeKilledKeepsItsHold) {
    BrokerFixture f(1, {.kill_stalled = true});
    f.watch.kill_refusal = EPERM;
    JoinedConsumer hung(f, 11, 1);
    hung.take(0);
    f.advance(seconds(31));
    f.broker->step();
    JoinedConsumer other(f, 12, 1);
    other.receive();
    ASSERT_EQ(other.tickets.size(), 1U);
    other.release(other.tickets[0]);
    EXPECT_EQ(f.report().stalled_killed, 0U);
    EXPECT_FALSE(f.can_fill()) << "it may still be reading";
}

// A program's consumer beside its egress: killing it would end the producer and the run.
TEST_F(BrokerDeadLetters, NeverKillsAConsumerInTheProducersProcess) {
    BrokerFixture f(1, {.kill_stalled = true});
    JoinedConsumer hung(f, ::getpid(), 1);
    hung.take(0);
    hung.work_on(hung.tickets[0]);
    f.advance(seconds(32));
    f.broker->step();
    EXPECT_EQ(f.report().visibility_timeouts, 1U);
    EXPECT_EQ(f.report().stalled_killed, 0U);
    EXPECT_EQ(f.report().consumers.at(0).end, "");
    JoinedConsumer other(f, ::getpid() + 1, 1);
    other.receive();
    ASSERT_EQ(other.tickets.size(), 1U);
    other.release(other.tickets[0]);
    EXPECT_EQ(f.report().completed.slabs, 1U);
    EXPECT_FALSE(f.can_fill()) << "it may still be reading";
}

TEST_F(BrokerDeadLetters, GivesUpABatchThatHangsEveryConsumer) {
    BrokerFixture f(1, with_folder({.kill_stalled = true}));
    f.publish(7);
    for (pid_t pid = 11; pid < 14; ++pid) {
        JoinedConsumer consumer(f, pid, 1);
        consumer.receive();
        ASSERT_EQ(consumer.tickets.size(), 1U) << pid;
        consumer.work_on(consumer.tickets[0]);
        f.advance(seconds(1));
        f.advance(seconds(31));
        f.broker->step();
        f.broker->step();
    }
    EXPECT_EQ(f.report().dead_letters->size(), 1U);
}

}  // namespace
}  // namespace offramp
