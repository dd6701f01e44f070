#include "producer/runner/ingest/input_batch.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

struct InputBatchLoan : ::testing::Test {
    InputBatch lend() {
        InputSlot* const slot = slots->acquire();
        copies->record(*slot->ready);
        return {7, {{.item = 21}, {.item = 22, .empty = true}}, slots, *slot};
    }

    std::unique_ptr<Device> device = open_cpu_device();
    std::unique_ptr<Stream> copies = device->make_stream("copies");
    std::unique_ptr<Stream> compute = device->make_stream("compute");
    std::shared_ptr<InputSlots> slots = std::make_shared<InputSlots>(*device, 64, 1, kSteadyClock);
};

TEST_F(InputBatchLoan, ADroppedLoanReturnsTheBufferOnce) {
    {
        InputBatch first = lend();
        InputBatch second = std::move(first);
        EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is tested
        EXPECT_NE(second.data(), nullptr);
        EXPECT_TRUE(second.ready()->armed());
    }
    InputSlot* const slot = slots->acquire();
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->last_use, nullptr);
    std::thread waiting([&] { EXPECT_EQ(slots->acquire(), nullptr); });  // the only slot is lent
    yield_until([&] { return slots->waiting() == 1; });
    slots->close();
    waiting.join();
}

TEST_F(InputBatchLoan, AReleaseRecordsTheWorkAndDoesNotWait) {
    StreamGate gate;
    InputBatch batch = lend();
    gate.hold(*compute);
    batch.release_after(*compute);
    EXPECT_EQ(batch.data(), nullptr);
    EXPECT_EQ(batch.ready(), nullptr);
    EXPECT_EQ(batch.rows().size(), 2U);  // the rows stay
    EXPECT_EQ(empty_rows(batch), 1U);
    EXPECT_EQ(batch.number(), 7U);
    InputSlot* const slot = slots->acquire();
    ASSERT_NE(slot->last_use, nullptr);
    EXPECT_FALSE(slot->last_use->done());
    gate.open();
    slot->last_use->wait();
    slots->give_back(*slot);
}

TEST_F(InputBatchLoan, AnAssignmentReturnsTheOverwrittenBuffer) {
    InputBatch batch = lend();
    batch = InputBatch(8, {}, nullptr);
    EXPECT_EQ(batch.number(), 8U);
    EXPECT_NE(slots->acquire(), nullptr);
}

TEST_F(InputBatchLoan, AResidentBatchNeedsNoWait) {
    const int resident = 0;
    InputBatch batch(3, {{.item = 1}}, &resident);
    EXPECT_EQ(batch.data(), &resident);
    EXPECT_EQ(batch.ready(), nullptr);
    batch.wait_ready(*compute);
    batch.release_after(*compute);
    EXPECT_EQ(batch.data(), nullptr);
}

}  // namespace
}  // namespace offramp
