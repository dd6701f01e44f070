#include "producer/runner/ingest/staging.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

struct Staging : ::testing::Test {
    const BatchPlan plan{8, 3};
    std::unique_ptr<Device> device = open_cpu_device();
    StepClock clock;
    StagingWindow window{*device, {.row_bytes = 16, .batch = 3, .batches = 2, .plan = &plan}, clock};
};

TEST_F(Staging, DeliversRowsInOrderWithoutOverlap) {
    std::vector<StagingWindow::Claim> claims;
    for (std::uint64_t item = 0; item < 6; ++item) {
        claims.push_back(*window.claim());
        EXPECT_EQ(claims.back().item, item);
        EXPECT_EQ(claims.back().row.size(), 16U);
    }
    std::sort(claims.begin(), claims.end(), [](const auto& a, const auto& b) { return a.row.data() < b.row.data(); });
    for (std::size_t i = 1; i < claims.size(); ++i) EXPECT_LE(claims[i - 1].row.data() + 16, claims[i].row.data());
}

TEST_F(Staging, ABatchIsCompleteWithItsLastRowInAnyOrder) {
    for (int i = 0; i < 6; ++i) window.claim();
    for (const std::uint64_t item : {4U, 2U, 0U, 5U, 3U}) window.done({.item = item});
    std::thread taker([&] {
        for (std::uint64_t number = 0; number < 2; ++number) {
            const auto batch = window.take_complete();
            EXPECT_EQ(batch->number, number);
            ASSERT_EQ(batch->rows.size(), 3U);
            for (std::uint64_t row = 0; row < 3; ++row) EXPECT_EQ(batch->rows[row].item, number * 3 + row);
            EXPECT_EQ(batch->rows[1].empty, number == 0);
        }
    });
    window.done({.item = 1, .empty = true, .reason = "bad"});
    taker.join();
}

TEST_F(Staging, TheWindowIsFullUntilABatchIsRecycled) {
    for (std::uint64_t item = 0; item < 6; ++item) {
        window.claim();
        window.done({.item = item});
    }
    ASSERT_TRUE(window.take_complete());
    std::thread worker([&] { EXPECT_EQ(window.claim()->item, 6U); });
    yield_until([&] { return window.waiting_to_claim() == 1; });
    window.recycle();
    worker.join();
}

TEST_F(Staging, TheLastBatchIsShort) {
    for (std::uint64_t item = 0; item < 8; ++item) {
        if (item == 6) {
            ASSERT_TRUE(window.take_complete());
            window.recycle();
        }
        EXPECT_EQ(window.claim()->item, item);
        window.done({.item = item});
    }
    EXPECT_FALSE(window.claim());
    EXPECT_EQ(window.take_complete()->number, 1U);
    const auto last = window.take_complete();
    EXPECT_EQ(last->number, 2U);
    EXPECT_EQ(last->rows.size(), 2U);
    EXPECT_EQ(last->memory.size(), 48U);
    EXPECT_FALSE(window.take_complete());
}

// The largest batch, by its bytes, may have fewer rows than others.
TEST_F(Staging, EachRowHasItsOwnFileForTheGpu) {
    const BatchPlan varying{37, 36, {}, {0, 36}};
    StagingWindow files{*device,
                        {.row_bytes = 144,
                         .batch = 1,
                         .batches = 2,
                         .plan = &varying,
                         .row_bytes_of = [](std::uint64_t number) { return number == 0 ? 4U : 144U; },
                         .for_gpu_decoder = true},
                        clock};
    for (std::uint64_t item = 0; item < 37; ++item) {
        const auto claim = files.claim();
        ASSERT_NE(claim->encoded, nullptr);
        EXPECT_TRUE(claim->encoded->file.empty());
        claim->encoded->file.resize(item + 1);
        files.done({.item = item});
    }
    for (const std::uint64_t rows : {36U, 1U}) {
        const auto batch = files.take_complete();
        ASSERT_EQ(batch->encoded.size(), rows);
        for (std::size_t row = 0; row < rows; ++row)
            EXPECT_EQ(batch->encoded[row].file.size(), batch->rows[row].item + 1);
        files.recycle();
    }
    EXPECT_EQ(window.claim()->encoded, nullptr) << "no decoder";
}

TEST_F(Staging, ClosingWakesWorkersAndTaker) {
    for (int i = 0; i < 6; ++i) window.claim();
    std::thread worker([&] { EXPECT_FALSE(window.claim()); });
    std::thread taker([&] { EXPECT_FALSE(window.take_complete()); });
    yield_until([&] { return window.waiting_to_claim() == 1; });
    window.close();
    worker.join();
    taker.join();
    window.done({.item = 0});  // a worker was in the middle of a row
}

}  // namespace
}  // namespace offramp
