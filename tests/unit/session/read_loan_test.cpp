#include "consumer/session/read_loan.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "common/base/error.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/unit/session/fake_run.hpp"
#include "tests/unit/session/scripted_producer.hpp"

namespace offramp {
namespace {

static_assert(!std::is_copy_constructible_v<ReadLoan> && !std::is_copy_assignable_v<ReadLoan>);
static_assert(std::is_nothrow_move_constructible_v<ReadLoan>);

constexpr std::uint64_t kSession = 6;
constexpr std::uint32_t kConsumerIndex = 1;

class ReadLoanTest : public ::testing::Test {
  protected:
    void SetUp() override {
        session_.step();
        ASSERT_TRUE(producer_.receive<Hello>());
        producer_.send(Welcome{kSession, kConsumerIndex, 1});
        ticket_ = run_.lease_filled(2, 10);
        producer_.send_tickets(kSession, 1, {ticket_});
        session_.step();
        ASSERT_EQ(session_.take(), ticket_);
    }
    ReadLoan open() { return ReadLoan::open(ticket_, mappings_, heartbeat_, session_, contents_); }
    std::optional<ReleaseKind> released() {
        session_.step();
        const auto received = producer_.receive_releases();
        if (!received) return std::nullopt;
        EXPECT_EQ(received->records.size(), 1U);
        EXPECT_EQ(received->records[0].ticket, ticket_);
        return static_cast<ReleaseKind>(received->records[0].kind);
    }
    WorkWord work() const { return WorkWord::unpack(load_word(run_.heartbeat(kConsumerIndex).work)); }
    WorkWord work_of_ticket() const {
        return {ticket_.slab, ticket_.attempt, static_cast<std::uint32_t>(ticket_.generation)};
    }

    FakeRun run_;
    SlabMappings mappings_ = SlabMappings::attach(run_.names());
    InMemoryHub hub_;
    ManualClock clock_;
    ScriptedProducer producer_{hub_};
    std::unique_ptr<ConsumerPort> port_ = hub_.consumer_port({.pid = 1000, .uid = 1, .gid = 1});
    ConsumerSession session_{*port_, clock_, {.run_nonce = run_.names().nonce, .window = 2, .program_version = "1"}};
    Heartbeat heartbeat_{run_.heartbeat(kConsumerIndex), kSession};
    SlabTicket ticket_;
    SlabContents contents_;
};

TEST_F(ReadLoanTest, ADeathDuringALoanIsChargedToItsDelivery) {
    EXPECT_EQ(work(), WorkWord{});
    ReadLoan loan = open();
    EXPECT_EQ(work(), work_of_ticket());
    EXPECT_EQ(loan.contents().batches.at(0).batch, 10U);
    EXPECT_EQ(loan.contents().samples.size(), 2U);
    EXPECT_FALSE(released());
}

TEST_F(ReadLoanTest, CompletingCountsAndReleases) {
    ReadLoan loan = open();
    const std::uint64_t bytes = loan.contents().tensor_bytes();
    std::move(loan).complete(std::chrono::nanoseconds(123));
    EXPECT_EQ(work(), WorkWord{});
    EXPECT_EQ(released(), ReleaseKind::Completed);
    const HeartbeatRecord& heartbeat = run_.heartbeat(kConsumerIndex);
    EXPECT_EQ(load_word(heartbeat.busy_ns), 123U);
    EXPECT_EQ(load_word(heartbeat.slabs), 1U);
    EXPECT_EQ(load_word(heartbeat.samples), FakeRun::samples_without_holes());
    EXPECT_EQ(load_word(heartbeat.bytes), bytes);
    EXPECT_GT(bytes, 0U);
}

TEST_F(ReadLoanTest, ReturningCountsNothing) {
    open().give_back();
    EXPECT_EQ(work(), WorkWord{});
    EXPECT_EQ(released(), ReleaseKind::Returned);
    EXPECT_EQ(load_word(run_.heartbeat(kConsumerIndex).slabs), 0U);
}

TEST_F(ReadLoanTest, ADroppedLoanReturnsTheSlabOnce) {
    {
        ReadLoan first = open();
        const ReadLoan second = std::move(first);
        EXPECT_EQ(second.contents().tensors.size(), 1U);
    }
    EXPECT_EQ(work(), WorkWord{});
    EXPECT_EQ(released(), ReleaseKind::Returned);
    EXPECT_FALSE(released());
}

TEST_F(ReadLoanTest, ASlabThatDiffersFromItsTicketFails) {
    run_.slab(ticket_.slab)[0] = std::byte{0};  // the magic
    EXPECT_THROW(open(), ProtocolError);
    EXPECT_EQ(work(), WorkWord{});
    session_.step();
    EXPECT_TRUE(producer_.receive_failure());
    EXPECT_EQ(released(), ReleaseKind::Failed);
}

TEST_F(ReadLoanTest, ReturnsASlabThatCannotBeMapped) {
    run_.remove_spans();
    EXPECT_THROW(open(), Error);
    EXPECT_EQ(work(), WorkWord{});
    EXPECT_EQ(released(), ReleaseKind::Returned);
}

TEST_F(ReadLoanTest, UsingALoanTwiceIsABug) {
    ReadLoan loan = open();
    std::move(loan).give_back();
    // NOLINTNEXTLINE(bugprone-use-after-move): this use is the bug
    EXPECT_DEATH(std::move(loan).complete({}), "used up once");
}

TEST(Heartbeat, IsUsedOnlyAfterAnEarlierSessionsIsCleared) {
    HeartbeatRecord bytes{.work = 1, .progress = 2, .session = 3, .busy_ns = 4, .slabs = 5, .samples = 6, .bytes = 7};
    Heartbeat heartbeat(bytes, 9);
    EXPECT_EQ(bytes.session, 9U);
    EXPECT_EQ(bytes.work, 0U);
    EXPECT_EQ(bytes.busy_ns + bytes.slabs + bytes.samples + bytes.bytes, 0U);
    const std::uint64_t before = bytes.progress;
    EXPECT_EQ(before, 3U) << "the first signs of life must not equal the last ones of the earlier session";
    heartbeat.progress();
    EXPECT_NE(bytes.progress, before);
}

}  // namespace
}  // namespace offramp
