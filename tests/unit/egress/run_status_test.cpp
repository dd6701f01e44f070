#include "producer/egress/run_status.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json/json_text.hpp"

namespace offramp {
namespace {

// The device's time and the waits of a custom loop are unknown.
TEST(RunStatus, OmitsUnknownFiguresOfALoop) {
    EgressStats now;
    now.slab_wait_seconds = 3;
    now.output.copy_times.add(1'000'000);
    now.output.batches_dropped = 2;
    now.output.bytes_dropped = 20;
    now.broker.slab_states = {SlabState::Free, SlabState::Leased};
    const RunStatus::Facts facts{.name = "mine", .device = "cpu", .began_ns = 5, .shm_bytes = 4096};
    const auto page = parse_json(RunStatus::page(facts, "running", {}, now, {}));
    EXPECT_EQ(page["name"], "mine");
    EXPECT_EQ(page["device"], "cpu");
    EXPECT_EQ(page["device_uuid"], "");
    EXPECT_EQ(page["began_ns"], 5);
    EXPECT_EQ(page["shm_bytes"], 4096);
    EXPECT_EQ(page["slab_states"], "FL");
    EXPECT_EQ(page["slab_wait_seconds"], 3);
    EXPECT_TRUE(page["input_wait_seconds"].is_null());
    EXPECT_TRUE(page["output_wait_seconds"].is_null());
    EXPECT_TRUE(page["pinned_bytes_per_second"].is_null());
    EXPECT_EQ(page["totals"]["dropped"], nlohmann::json({{"slabs", 0}, {"batches", 2}, {"samples", 0}, {"bytes", 20}}));
    EXPECT_FALSE(page["stage_seconds"].contains("compute"));
    EXPECT_EQ(page["stage_seconds"]["d2h"]["sum"], 0.001);
}

}  // namespace
}  // namespace offramp
