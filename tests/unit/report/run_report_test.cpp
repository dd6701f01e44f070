#include "producer/runner/report/run_report.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/clock.hpp"
#include "common/json/json_text.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

class RunReportTest : public ::testing::Test {
  protected:
    nlohmann::json status() const { return written("status.json"); }
    nlohmann::json written(const std::string& name) const {
        std::ostringstream text;
        text << std::ifstream(folder_.file(name)).rdbuf();
        return parse_json(text.str());
    }

    // `seconds` after now.
    static RunStats stats(std::uint64_t seconds, std::uint64_t samples, std::initializer_list<double> consumers_busy,
                          const char* end = "") {
        RunStats stats;
        stats.state = "running";
        stats.at_ns = now_ns() + seconds * kSecond;
        stats.broker.completed.samples = samples;
        for (const double busy : consumers_busy) {
            ConsumerReport consumer;
            consumer.session = stats.broker.consumers.size() + 1;
            consumer.busy_seconds = busy;
            consumer.end = end;
            stats.broker.consumers.push_back(consumer);
        }
        return stats;
    }

    support::TemporaryFolder folder_;
};

TEST_F(RunReportTest, AFirstStatusCoversTheTimeSinceWorkBegan) {
    // The model takes long to load.
    RunReport report(folder_.path(), RunFacts{.began_ns = now_ns() - 100 * kSecond});
    RunStats now = stats(10, 50, {2.0, 4.0}, "disconnected");  // the last status, too
    now.state = "ended";
    now.compute_busy_seconds = 5;
    now.input_wait_seconds = 4;
    report.write_status(now);
    EXPECT_NEAR(5, status()["samples_per_second"].get<double>(), 0.1);
    EXPECT_NEAR(0.5, status()["gpu_utilization"].get<double>(), 0.01);
    EXPECT_NEAR(0.3, status()["consumer_utilization"].get<double>(), 0.01);
    EXPECT_EQ("input", status()["limiting_stage"]);
}

TEST_F(RunReportTest, ALaterStatusCoversTheTimeSinceThePreviousOne) {
    RunReport report(folder_.path(), {});
    report.write_status(stats(10, 50, {2.0, 4.0}));
    report.write_status(stats(20, 70, {7.0, 4.0}));
    EXPECT_NEAR(2, status()["samples_per_second"].get<double>(), 0.1);
    EXPECT_NEAR(0.25, status()["consumer_utilization"].get<double>(), 0.01);
}

TEST_F(RunReportTest, OmitsTheShareOfConsumersThatWereGone) {
    RunStats before = stats(10, 50, {2.0, 4.0});
    before.broker.consumers[1].end = "died";
    RunStats now = stats(20, 70, {7.0, 4.0});
    now.broker.consumers[1].end = "died";
    EXPECT_NEAR(0.5, parse_json(RunReport::status_json({}, before, now))["consumer_utilization"].get<double>(), 0.01);
}

TEST_F(RunReportTest, ASuccessorExcludesItsPredecessorsWork) {
    RunReport report(folder_.path(), RunFacts{.producers = 2});
    report.write_status(stats(1, 5000, {60.0}));
    EXPECT_EQ(0, status()["samples_per_second"]);
    EXPECT_EQ("starting", status()["limiting_stage"]);
    report.write_status(stats(11, 5020, {61.0}));
    EXPECT_NEAR(2, status()["samples_per_second"].get<double>(), 0.1);
}

TEST_F(RunReportTest, RatesAndSharesCoverTheLastTenSeconds) {
    RunReport report(folder_.path(), {});
    for (std::uint64_t second = 1; second <= 30; ++second) {
        RunStats now = stats(second, second < 20 ? second * 100 : 1900 + second, {static_cast<double>(second) / 2});
        now.compute_busy_seconds = static_cast<double>(second) / 4;
        report.write_status(now);
    }
    EXPECT_NEAR(1, status()["samples_per_second"].get<double>(), 0.2);
    EXPECT_NEAR(0.5, status()["consumer_utilization"].get<double>(), 0.05);
    EXPECT_NEAR(0.25, status()["gpu_utilization"].get<double>(), 0.05);
}

TEST_F(RunReportTest, UnreadableItemsAreNotDone) {
    RunReport report(folder_.path(), RunFacts{.items = 56, .done_before = 7});
    RunStats now = stats(1, 30, {});
    now.skipped = 19;
    now.broker.dead_lettered.samples = 2;
    report.write_status(now);
    EXPECT_EQ(37, status()["done_samples"]);
    EXPECT_EQ(19, status()["skipped"]);
}

TEST_F(RunReportTest, ConsumersAreTheBottleneckAfterTheInput) {
    RunFacts facts{.items = 100};
    RunStats before = stats(1, 10, {1.0});
    RunStats now = stats(5, 60, {1.0});
    now.input_wait_seconds = 3;
    now.sourced = 100;
    now.skipped = 10;
    now.broker.published.samples = 80;
    now.broker.in_flight.samples = 20;
    const auto current = [&] { return parse_json(RunReport::status_json(facts, before, now)); };
    EXPECT_EQ("input", current()["limiting_stage"]) << "ten are still computed";
    EXPECT_TRUE(current()["gpu_utilization"].is_null()) << "no batch has a time yet";
    EXPECT_TRUE(current()["consumer_utilization"].is_null()) << "no slab is finished, and some are held";
    now.broker.published.samples = 90;
    EXPECT_EQ("consumers", current()["limiting_stage"]);
    EXPECT_EQ(0, current()["gpu_utilization"]);
    now.sourced = now.skipped + now.broker.published.samples - 5;
    now.broker.published.samples -= 5;
    EXPECT_EQ("input", current()["limiting_stage"]) << "more will be read";
    now.state = "draining";
    EXPECT_EQ("consumers", current()["limiting_stage"]);
}

TEST_F(RunReportTest, AWaitForTheComputeTurnIsTheLimitingStage) {
    const std::uint64_t began = now_ns();
    RunStats now = stats(5, 0, {});
    now.at_ns = began + 60 * kSecond;
    now.input_wait_seconds = 50;
    now.turn_wait_seconds = 50;
    now.waits_for_turn = true;
    EXPECT_EQ("turn", parse_json(RunReport::status_json({}, stats(1, 0, {}), now))["limiting_stage"]);
    EXPECT_EQ(0, parse_json(RunReport::summary_json(RunFacts{.began_ns = began}, now, {}))["first_batch_seconds"]);
    now.waits_for_turn = false;
    EXPECT_EQ("input", parse_json(RunReport::status_json({}, stats(1, 0, {}), now))["limiting_stage"]);
    now.broker.first_release_ns = began + 53 * kSecond;
    now.broker.completed.samples = 40;
    const auto summary = parse_json(RunReport::summary_json(RunFacts{.began_ns = began}, now, {}));
    EXPECT_NEAR(3, summary["first_batch_seconds"].get<double>(), 0.01);
    EXPECT_NEAR(4, summary["samples_per_second"].get<double>(), 0.01) << "in its ten seconds of compute";
    EXPECT_NEAR(50, summary["turn_wait_seconds"].get<double>(), 0.01);
}

TEST_F(RunReportTest, TheSummaryHasTheCauseOfAFailure) {
    RunStats now = stats(5, 0, {});
    const auto cause = [&](std::optional<FailureCause> of) {
        now.failure_cause = of;
        return parse_json(RunReport::summary_json({}, now, {}))["failure_cause"];
    };
    using enum FailureCause::Kind;
    EXPECT_TRUE(cause({}).is_null());
    EXPECT_EQ(cause({{.kind = Input}}), (nlohmann::json{{"kind", "input"}}));
    EXPECT_EQ(cause({{.kind = Model}}), (nlohmann::json{{"kind", "model"}}));
    EXPECT_EQ(cause({{.kind = SlabTooSmall, .slab_bytes = 70000}}),
              (nlohmann::json{{"kind", "slab-too-small"}, {"slab_bytes", 70000}}));
}

// A rate without a finished warm-up covers the whole run, and so does its time.
TEST_F(RunReportTest, ARunShorterThanItsWarmUpHasNoSteadyRate) {
    const std::uint64_t began = now_ns();
    RunReport report(folder_.path(), RunFacts{.began_ns = began});
    const auto summary = [&](std::uint64_t steady_since, std::uint64_t measured_from) {
        RunStats now = stats(0, 40, {});
        now.at_ns = began + 10 * kSecond;
        now.broker.last_release_ns = began + 8 * kSecond;
        now.broker.steady_since_ns = steady_since == 0 ? 0 : began + steady_since * kSecond;
        now.broker.before_steady.samples = steady_since == 0 ? 0 : 10;
        now.measured_from.at_ns = measured_from == 0 ? 0 : began + measured_from * kSecond;
        report.write_summary(now, ExitCode::Ok);
        return written("summary.json");
    };
    for (const std::uint64_t since : {0, 8}) {  // the warm-up did not end, or took the whole run
        const nlohmann::json whole = summary(since, 0);
        EXPECT_FALSE(whole["steady"].get<bool>());
        EXPECT_DOUBLE_EQ(4, whole["samples_per_second"].get<double>());
        EXPECT_DOUBLE_EQ(whole["seconds"].get<double>(), whole["steady_seconds"].get<double>());
    }
    EXPECT_TRUE(summary(2, 0)["steady"].get<bool>());
    EXPECT_DOUBLE_EQ(5, summary(2, 0)["samples_per_second"].get<double>());
    EXPECT_DOUBLE_EQ(6, summary(2, 3)["samples_per_second"].get<double>()) << "since the device was idle";
}

TEST_F(RunReportTest, AStatusHasTheFiguresOfEveryStage) {
    RunFacts facts{.device = {.kind = "cuda", .name = "NVIDIA H200", .uuid = "GPU-1"}, .model = "a model"};
    facts.shm_bytes = 4096;
    facts.began_ns = 7;
    RunStats now = stats(1, 1, {1.0});
    now.compute_times.add(200'000, 16);
    now.input_wait_seconds = 2;
    now.broker.published = {.slabs = 3, .batches = 2, .samples = 8, .bytes = 80};
    now.broker.ever_spilled = {.slabs = 1};
    now.dropped_when_full = {.batches = 4, .samples = 16, .bytes = 160};
    now.broker.queue.add(3'000'000'000'000);
    now.broker.slab_states = {SlabState::Free,   SlabState::Filling, SlabState::Ready,
                              SlabState::Leased, SlabState::Retired, SlabState::DeadLettered};
    now.broker.consumers[0].held = {3, 4};
    const auto page = parse_json(RunReport::status_json(facts, stats(0, 0, {}), now));
    EXPECT_EQ(page["device"], "NVIDIA H200");
    EXPECT_EQ(page["device_uuid"], "GPU-1");
    EXPECT_EQ(page["model"], "a model");
    EXPECT_EQ(page["began_ns"], 7);
    EXPECT_EQ(page["shm_bytes"], 4096);
    EXPECT_EQ(page["input_wait_seconds"], 2);
    EXPECT_EQ(page["totals"]["published"]["bytes"], 80);
    EXPECT_EQ(page["totals"]["spilled"]["slabs"], 1);
    EXPECT_EQ(page["totals"]["dropped"]["bytes"], 160);
    const std::size_t bounds = page["stage_bounds_seconds"].size();
    EXPECT_EQ(page["stage_bounds_seconds"][0], 0.0001);
    for (const char* stage : {"compute", "d2h", "queue", "process"})
        EXPECT_EQ(page["stage_seconds"][stage]["counts"].size(), bounds + 1) << stage;
    EXPECT_EQ(page["stage_seconds"]["compute"]["counts"][1], 16);
    EXPECT_DOUBLE_EQ(page["stage_seconds"]["compute"]["sum"].get<double>(), 0.0032);
    EXPECT_EQ(page["stage_seconds"]["queue"]["counts"][bounds], 1);
    EXPECT_EQ(page["slab_states"], "FGPLRD");
    EXPECT_EQ(page["slab_state_letters"]["P"], "ready");
    EXPECT_EQ(page["slab_state_letters"].size(), kSlabStates);
    EXPECT_EQ(page["consumers"][0]["held"], nlohmann::json({3, 4}));
    EXPECT_TRUE(page["pinned_bytes_per_second"].is_null());
    now.pinning = {.registered = true, .gigabytes_per_second = 2};
    EXPECT_EQ(parse_json(RunReport::status_json(facts, now, now))["pinned_bytes_per_second"], 2e9);
}

TEST_F(RunReportTest, AStatusHasTheWallClockTime) {
    RunReport report(folder_.path(), {});
    report.write_status(stats(1, 1, {}));
    const std::string time = status()["time"];
    std::tm utc{};
    ASSERT_NE(nullptr, ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &utc)) << time;
    EXPECT_NEAR(static_cast<double>(std::time(nullptr)), static_cast<double>(::timegm(&utc)), 60) << time;
    EXPECT_EQ('Z', time.back());
}

}  // namespace
}  // namespace offramp
