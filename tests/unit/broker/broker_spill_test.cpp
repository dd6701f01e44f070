#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/base/error.hpp"
#include "common/wire/slab_header.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// A broker that may spill to a real folder. The egress is a thread that waits for one slab.
class BrokerSpill : public testing::Test {
  protected:
    ~BrokerSpill() override {
        if (f_) f_->exchange->stop();
        if (egress_.joinable()) egress_.join();
        f_.reset();
        store_.reset();
        std::filesystem::remove_all(folder_);
    }

    BrokerFixture& start(std::uint32_t slabs) {
        store_ = std::make_shared<SpillStore>(folder_, [this] {
            ++outcomes_;
            outcomes_.notify_all();
        });
        BrokerOptions options;
        options.spill = store_;
        f_ = std::make_unique<BrokerFixture>(slabs, options);
        return *f_;
    }
    void fill(std::uint32_t slab, std::uint8_t value) {
        for (std::byte& byte : f_->bytes_of(slab)) byte = std::byte{value};
    }
    // Waits for a slab that is not available.
    void block_egress() {
        egress_ = std::thread([this] {
            auto loan = f_->exchange->wait_for_slab();
            if (!loan) return;
            f_->exchange->publish(
                std::move(*loan),
                {.first_batch = 99, .samples = 4, .batches_ended = 1, .bytes = 40, .items_through = 400});
            got_ = true;
        });
        while (!f_->exchange->waiting()) std::this_thread::yield();
        f_->broker->step();
    }
    void wait_for_the_disk(int outcomes) {
        for (int seen = outcomes_; seen < outcomes; seen = outcomes_) outcomes_.wait(seen);
    }
    std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
    }
    static std::uint32_t count(const BrokerReport& report, SlabState state) {
        return report.slabs[static_cast<std::size_t>(state)];
    }

    const std::string folder_ = testing::TempDir() + "broker_spill_test." + std::to_string(::getpid());
    std::atomic<int> outcomes_{0};
    std::atomic<bool> got_{false};
    std::shared_ptr<SpillStore> store_;
    std::unique_ptr<BrokerFixture> f_;
    std::thread egress_;
};

TEST_F(BrokerSpill, SpillsTheOldestSlabAndReadsItBackForAConsumer) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    fill(0, 10);
    fill(1, 20);
    block_egress();
    EXPECT_EQ(files(), 0U) << "consumers get a moment first";
    f.advance(milliseconds(50));
    wait_for_the_disk(1);
    EXPECT_EQ(count(f.report(), SlabState::Ready), 2U) << "until the broker sees the file, the slab keeps its state";
    f.broker->step();
    egress_.join();
    EXPECT_TRUE(got_);
    EXPECT_EQ(files(), 1U);
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/slab-0-1.spill"));
    EXPECT_EQ(f.report().spilled.samples, 4U);
    EXPECT_EQ(f.report().ever_spilled.slabs, 1U);
    EXPECT_TRUE(f.report().conserved());
    fill(0, 30);  // as the egress does

    f.exchange->finish();
    f.broker->step();
    JoinedConsumer consumer(f, 11, 1);
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    consumer.release(consumer.tickets[0]);
    ASSERT_EQ(consumer.tickets.size(), 2U);
    consumer.release(consumer.tickets[1]);
    f.broker->step();
    EXPECT_FALSE(f.broker->ended()) << "one is still on the disk";
    wait_for_the_disk(2);
    f.broker->step();
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 3U);
    const SlabTicket back = consumer.tickets[2];
    const auto bytes = f.bytes_of(back.slab);
    EXPECT_EQ(bytes[sizeof(SlabHeader)], std::byte{10}) << "batch 0";
    SlabHeader header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    EXPECT_EQ(header.slab, back.slab);
    EXPECT_EQ(header.generation, back.generation);
    EXPECT_EQ(files(), 0U);
    consumer.release(back);
    EXPECT_EQ(f.report().completed.samples, 12U);
    EXPECT_EQ(f.report().spilled.samples, 0U);
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerSpill, SpillsOnlySlabsThatHaveMemory) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    f.unmade = {0, 1};  // as in a run that was taken over, whose memory is being mapped
    block_egress();
    f.advance(milliseconds(50));
    f.unmade = {0};
    f.broker->step();
    wait_for_the_disk(1);
    f.broker->step();
    egress_.join();
    EXPECT_EQ(files(), 1U);
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/slab-1-1.spill")) << "slab 0 is older but has no memory";
}

TEST_F(BrokerSpill, DoesNotDeliverASlabThatIsBeingWritten) {
    BrokerFixture& f = start(1);
    f.publish(0);
    block_egress();
    f.advance(milliseconds(50));
    JoinedConsumer consumer(f, 11, 8);
    // If the disk was done by then, another slab may have been filled.
    for (const SlabTicket& ticket : consumer.tickets) EXPECT_NE(ticket.generation, 1U);
    wait_for_the_disk(1);
}

TEST_F(BrokerSpill, WaitsWhenTheDiskIsFull) {
    BrokerFixture& f = start(1);
    std::filesystem::remove_all(folder_);
    f.publish(0);
    block_egress();
    f.advance(milliseconds(50));
    wait_for_the_disk(1);
    f.broker->step();
    EXPECT_THAT(f.report().spill_error, HasSubstr("writing " + folder_ + "/slab-0-1.spill, 512 bytes"));
    EXPECT_EQ(f.report().spilled.samples, 0U);
    f.advance(seconds(1));
    EXPECT_EQ(outcomes_, 1) << "the disk is retried later, not immediately";
    JoinedConsumer consumer(f, 11);
    f.broker->step();
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    consumer.release(consumer.tickets[0]);
    f.broker->step();
    egress_.join();
    EXPECT_TRUE(got_);
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerSpill, ASpilledSlabKeepsItsIncidentReport) {
    BrokerFixture& f = start(1);
    f.publish(0);
    JoinedConsumer crashing(f, 11, 1);
    crashing.receive();
    ASSERT_EQ(crashing.tickets.size(), 1U);
    crashing.work_on(crashing.tickets[0]);
    crashing.die();
    block_egress();
    f.advance(milliseconds(50));
    EXPECT_FALSE(store_->busy());
    EXPECT_EQ(f.ledger.failures(0), 1U);
}

TEST_F(BrokerSpill, AMissingFileEndsTheRun) {
    BrokerFixture& f = start(1);
    f.publish(0);
    block_egress();
    f.advance(milliseconds(50));
    wait_for_the_disk(1);
    f.broker->step();
    egress_.join();
    std::filesystem::remove(folder_ + "/slab-0-1.spill");
    f.exchange->finish();
    f.broker->step();
    JoinedConsumer consumer(f, 11);
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    EXPECT_THAT(test::error_of([&] {
                    consumer.release(consumer.tickets[0]);
                    f.broker->step();
                    wait_for_the_disk(2);
                    f.broker->step();
                }),
                HasSubstr("a spilled slab is lost: reading " + folder_ + "/slab-0-1.spill back"));
}

TEST_F(BrokerSpill, AnAbortKeepsSpilledSlabsInTheRecords) {
    BrokerFixture& f = start(1);
    f.publish(0);
    block_egress();
    f.advance(milliseconds(50));
    wait_for_the_disk(1);
    f.broker->step();
    egress_.join();
    f.exchange->finish();
    f.broker->step();
    JoinedConsumer consumer(f, 11);
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    consumer.release(consumer.tickets[0]);
    f.broker->step();
    f.broker->abort();  // during the read, or just after
    wait_for_the_disk(2);
    f.broker->step();
    EXPECT_EQ(count(f.report(), SlabState::Filling), 0U);
    EXPECT_EQ(f.report().spilled.samples + f.report().in_flight.samples, 4U);
    EXPECT_TRUE(f.report().conserved());
}

}  // namespace
}  // namespace offramp
