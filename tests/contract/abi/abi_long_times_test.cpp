// Durations beyond the milliseconds that 31 and 32 bits hold, up to the longest that a call takes, are durations.

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/contract/abi/abi_world.hpp"

namespace offramp::test {
namespace {

class LongTimes : public AbiWorld {
  protected:
    offramp_egress_stats stats() {
        offramp_egress_stats stats{};
        stats.size = sizeof stats;
        EXPECT_EQ(offramp_egress_get_stats(egress_, &stats, nullptr), OFFRAMP_OK);
        return stats;
    }
    // Counts slabs, and holds each until the broker has also admitted the other consumer: by then it has checked
    // leases.
    void consume(double seconds) {
        offramp_consumer_options options{};
        options.size = sizeof options;
        options.run_dir = run_dir_.c_str();
        options.wait_for_run_seconds = seconds;
        offramp_consumer* consumer = nullptr;
        offramp_error error{};
        EXPECT_EQ(offramp_consumer_open(&options, &consumer, &error), OFFRAMP_OK) << error.text;
        const auto process = [](void* world, const offramp_slab*) -> std::int32_t {
            auto& self = *static_cast<LongTimes*>(world);
            ++self.slabs_;
            while (self.stats().consumers < 2) std::this_thread::yield();
            return OFFRAMP_OK;
        };
        EXPECT_EQ(offramp_consumer_run(consumer, process, this, &error), OFFRAMP_OK) << error.text;
        EXPECT_EQ(offramp_consumer_close(consumer, &error), OFFRAMP_OK) << error.text;
    }

    offramp_egress* egress_ = nullptr;
    std::atomic<int> slabs_{0};
};

TEST_F(LongTimes, OfAWaitOrALeaseEndNothingEarly) {
    for (const double seconds : {2147483.6, 2147483.7, 4294967.2, 4294967.297, 9.2e8, 1e9}) {
        SCOPED_TRACE(seconds);
        slabs_ = 0;
        options_.visibility_timeout_seconds = options_.max_delay_seconds = seconds;
        options_.kill_stalled = options_.report_completed = 1;
        ASSERT_EQ(offramp_egress_open(&options_, &egress_, &error_), OFFRAMP_OK) << error_.text;
        std::thread first([&] { consume(seconds); }), second([&] { consume(seconds); });
        const Batch made = batch(0);
        const std::vector<const void*> tensors{made.scores.data(), made.ids.data()};
        offramp_batch given{};
        given.size = sizeof given;
        given.tensors = tensors.data();
        given.tensor_count = 2;
        given.rows = kRows;
        given.timeout_seconds = seconds;
        for (int number = 0; number < 3; ++number)
            EXPECT_EQ(offramp_egress_submit(egress_, &given, &error_), OFFRAMP_OK) << error_.text;
        while (stats().consumers < 2) std::this_thread::yield();
        EXPECT_EQ(stats().samples_published, 0U) << "the delay ran out";
        EXPECT_EQ(offramp_egress_drain(egress_, seconds, &error_), OFFRAMP_OK) << error_.text;
        std::uint64_t released = 0;
        EXPECT_EQ(offramp_egress_wait_released(egress_, 2, seconds, &released, &error_), OFFRAMP_OK) << error_.text;
        offramp_items items[2]{};
        std::uint32_t count = 0;
        EXPECT_EQ(offramp_egress_take_completed(egress_, items, 2, seconds, &count, &error_), OFFRAMP_OK)
            << error_.text;
        EXPECT_EQ(items[0].end, 3 * kRows);
        EXPECT_EQ(stats().samples_dead_lettered, 0U);
        EXPECT_EQ(slabs_, 1) << "the lease ran out";
        EXPECT_EQ(offramp_egress_close(egress_, &error_), OFFRAMP_OK) << error_.text;
        first.join();
        second.join();
    }
}

}  // namespace
}  // namespace offramp::test
