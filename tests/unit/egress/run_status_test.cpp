#include "producer/egress/run_status.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json/json_text.hpp"

namespace offramp {
namespace {

// Of a loop of somebody else's its device's time is not known, nor what it waits for.
TEST(RunStatus, WhatIsNotKnownOfALoopIsNotReported) {
    RunStatusFields now;
    now.slab_wait_seconds = 3;
    now.output.copy_times.add(1'000'000);
    now.output.batches_dropped = 2;
    now.output.bytes_dropped = 20;
    now.broker.slab_states = {SlabState::Free, SlabState::Leased};
    const RunStatus::Facts facts{.name = "mine", .device = "cpu", .began_ns = 5, .shm_bytes = 4096};
    const auto told = parse_json(RunStatus::page(facts, "running", {}, now, {}));
    EXPECT_EQ(told["name"], "mine");
    EXPECT_EQ(told["device"], "cpu");
    EXPECT_EQ(told["device_uuid"], "");
    EXPECT_EQ(told["began_ns"], 5);
    EXPECT_EQ(told["shm_bytes"], 4096);
    EXPECT_EQ(told["slab_states"], "FL");
    EXPECT_EQ(told["slab_wait_seconds"], 3);
    EXPECT_TRUE(told["input_wait_seconds"].is_null());
    EXPECT_TRUE(told["output_wait_seconds"].is_null());
    EXPECT_TRUE(told["pinned_bytes_per_second"].is_null());
    EXPECT_EQ(told["totals"]["dropped"], nlohmann::json({{"slabs", 0}, {"batches", 2}, {"samples", 0}, {"bytes", 20}}));
    EXPECT_FALSE(told["stage_seconds"].contains("compute"));
    EXPECT_EQ(told["stage_seconds"]["d2h"]["sum"], 0.001);
}

}  // namespace
}  // namespace offramp
