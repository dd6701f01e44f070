// A run that is closed while a consumer joins it, in a process that lives on: the consumer ends.

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <offramp/consumer.hpp>
#include <offramp/egress.hpp>
#include <thread>

#include "tests/contract/abi/abi_world.hpp"

namespace offramp::test {
namespace {

using Closing = AbiWorld;
using std::chrono::microseconds;
using testing::AnyOf;
using testing::HasSubstr;

EgressOptions run_of_scores(const std::string& run_dir) {
    return {.run_dir = run_dir, .tensors = {{"scores", float32, {4, 3}}}, .device = "cpu"};
}

std::int32_t end_of_consuming(
    const std::string& run_dir, const std::function<void(const Slab&)>& work = [](const Slab&) {}) {
    try {
        return Consumer(run_dir, 0.05).for_each(work) ? OFFRAMP_OK : OFFRAMP_STOPPED;
    } catch (const Error& problem) {
        if (problem.code() == OFFRAMP_NO_SUCH_RUN) {
            EXPECT_THAT(problem.what(), HasSubstr("there is no file 'endpoint'"));
        }
        return problem.code();
    }
}

// Its Hello goes to a socket without a server, as after a broker has just ended.
TEST_F(Closing, AnUnansweredConsumerEndsWithTheEndpoint) {
    Egress egress(run_of_scores(run_dir_));
    const std::string deaf = folder_ + "/deaf";
    std::filesystem::create_directories(deaf + "/live");
    std::filesystem::copy_file(run_dir_ + "/live/endpoint", deaf + "/live/endpoint");
    auto consumer = std::async(std::launch::async, [&] { return end_of_consuming(deaf); });
    EXPECT_EQ(consumer.wait_for(std::chrono::milliseconds(1500)), std::future_status::timeout)
        << "it waits for a slow producer";
    std::filesystem::remove(deaf + "/live/endpoint");
    EXPECT_EQ(consumer.get(), OFFRAMP_OK);
}

// Closing at many moments of a join: the consumer is refused, is drained, sees the endpoint go, or comes too late to
// find the run. No consumer waits forever, and one that found the run learns that it is over.
TEST_F(Closing, AConsumerThatJoinsWhileTheRunClosesEnds) {
    constexpr int kRuns = 40;
    std::vector<std::unique_ptr<Egress>> drained;  // they outlive their consumers
    std::vector<std::future<std::int32_t>> consumers;
    for (int number = 0; number < kRuns; ++number) {
        const std::string run_dir = run_dir_ + std::to_string(number);
        auto egress = std::make_unique<Egress>(run_of_scores(run_dir));
        consumers.push_back(std::async(std::launch::async, [run_dir] { return end_of_consuming(run_dir); }));
        std::this_thread::sleep_for(microseconds(number / 2 * 200));
        if (number % 2 != 0) continue;  // this one is abandoned
        EXPECT_TRUE(egress->drain());
        drained.push_back(std::move(egress));
    }
    for (auto& consumer : consumers) EXPECT_THAT(consumer.get(), AnyOf(OFFRAMP_OK, OFFRAMP_NO_SUCH_RUN));
}

// Abandoning waits for it some seconds at most.
TEST_F(Closing, ABusyConsumerOfAnAbandonedRunEnds) {
    auto egress = std::make_unique<Egress>(run_of_scores(run_dir_));
    const Batch made = batch(0);
    egress->submit({made.scores.data()}, kRows);
    std::promise<void> begun, closed;
    auto consumer = std::async(std::launch::async, [&] {
        return end_of_consuming(run_dir_, [&](const Slab&) {
            begun.set_value();
            closed.get_future().wait();
        });
    });
    begun.get_future().wait();
    egress.reset();
    closed.set_value();
    EXPECT_EQ(consumer.get(), OFFRAMP_PRODUCER_GONE) << "no broker took its release";
}

}  // namespace
}  // namespace offramp::test
