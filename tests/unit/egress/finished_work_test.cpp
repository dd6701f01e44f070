#include "producer/egress/finished_work.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace offramp {
namespace {

TEST(ReleasedBatches, ASleeperSeesABatchReleasedBeforeItWakes) {
    for (int i = 0; i < 20; ++i) {
        ReleasedBatches batches;
        auto released = std::async(std::launch::async, [&] { return batches.wait_unattended(0, 1ms, std::nullopt); });
        std::this_thread::sleep_for(5ms);  // it sleeps: no batch was released yet
        batches.note_taken();
        batches.note(0);
        const bool in_time = released.wait_for(10s) == std::future_status::ready;
        if (!in_time) batches.end();
        ASSERT_EQ(released.get(), std::optional<std::uint64_t>{1});
    }
}

}  // namespace
}  // namespace offramp
